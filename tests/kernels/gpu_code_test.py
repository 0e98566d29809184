#!/usr/bin/env python3
"""The reader of machine code on listings written by hand."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gpu_code

LISTING = """
\t\tFunction : _Z3addv
        /*0000*/                   LDC R1, c[0x0][0x28] ;      /* 0x00000a00ff017b82 */
                                                               /* 0x000fe20000000800 */
        /*0010*/                   LDG.E.128 R4, desc[UR6][R2.64] ;
        /*0020*/              @!P0 LDG.E.U16 R8, desc[UR6][R2.64+0x8] ;
        /*0030*/                   FADD R4, R4, R8 ;
        /*0040*/               @P1 BRA 0x10 ;
        /*0050*/                   LDG.E R9, desc[UR6][R2.64] ;
        /*0060*/                   BRA.DIV UR4, 0x90 ;
        /*0070*/               @P2 BRA 0x0 ;
        /*0080*/                   EXIT ;
        /*0090*/                   WARPSYNC.COLLECTIVE R3, 0xa0 ;
        /*00a0*/                   BRA 0x50 ;
        /*00b0*/                   BRA 0xb0;
        /*00c0*/                   NOP ;
"""


class GpuCodeTest(unittest.TestCase):
    def test_the_inner_loop_that_loads_most(self):
        code = gpu_code.read_code(LISTING)
        self.assertEqual(list(code), ["_Z3addv"])
        figures = gpu_code.figures_of(code["_Z3addv"], (32, 8, 1024))
        # Not the outer loop, and not what jumps back from behind the end.
        self.assertEqual(figures, gpu_code.Figures(32, 8, 1024, 12, 4, 2, 128))

    def test_a_trap_is_found(self):
        code = gpu_code.read_code(LISTING + """
\t\tFunction : _Z4stopv
        /*0000*/              @!P0 BPT.TRAP 0x1 ;
        /*0010*/                   EXIT ;
""")
        self.assertEqual(gpu_code.with_traps(code), ["_Z4stopv"])

    def test_widths_of_loads(self):
        for load, bits in (("LDG.E", 32), ("LDG.E.128", 128), ("LDG.E.64.CONSTANT", 64),
                           ("LDG.E.U8", 8), ("LDG.E.U16", 16)):
            self.assertEqual(gpu_code.width_of(load), bits)

    def test_names_without_arguments(self):
        text = "run<Shape<float, 4>, int>(int, Shape<float, 4>)"
        self.assertEqual(text[:gpu_code.end_of_name(text)], "run<Shape<float, 4>, int>")

    def test_a_tenth_more_or_less_is_named(self):
        old = gpu_code.Figures(40, 0, 0, 1000, 100, 8, 128)
        self.assertEqual(gpu_code.compare({"k": old}, {"k": old._replace(loop=110)}), [])
        self.assertEqual(gpu_code.compare({"k": old}, {"k": old._replace(loop=111, stack=8)}),
                         ["k: stack 8, listed 0", "k: loop 111, listed 100"])
        self.assertEqual(gpu_code.compare({"k": old}, {"k": old._replace(width=32)}),
                         ["k: width 32, listed 128"])
        self.assertEqual(gpu_code.compare({"k": old}, {}), ["k: listed, but not in the library"])


if __name__ == "__main__":
    unittest.main()
