#!/usr/bin/env python3
"""Lists that were worked out by hand. Usage: tapfinger_test.py bench_schedule"""

import random
import sys
import unittest

import tapfinger

PROGRAM = sys.argv.pop(1)


def tasks(*fixed, servers=1):
    return [{"arrival": 0, "fixed": kind, "servers": list(range(servers))} for kind in fixed]


class TapFingerTest(unittest.TestCase):
    def test_steps(self):
        self.assertEqual(tapfinger.steps(True, 1), 4)
        self.assertEqual(tapfinger.steps(True, 16), 4)
        # 0.834 after a step, 1.295 after two.
        self.assertEqual(tapfinger.steps(False, 16), 2)

    def test_a_server_starts_one_task_per_step(self):
        for choose in (tapfinger.random_task(random.Random(1)), tapfinger.shortest_task):
            self.assertEqual(tapfinger.replay(tasks(True), 1, choose), 4)
            self.assertEqual(tapfinger.replay(tasks(True, True), 1, choose), 4.5)
            # They end after 4 to 12 steps.
            self.assertEqual(tapfinger.replay(tasks(*[True] * 9), 1, choose), 8)
        # It ends after 2 steps and leaves a slot, in which the other one starts a step later.
        self.assertEqual(tapfinger.replay(tasks(False), 1, tapfinger.shortest_task), 2)
        mixed = tapfinger.replay(tasks(True, False), 1, tapfinger.shortest_task)
        self.assertEqual(mixed, (2 + 5) / 2)

    def test_tasks_keep_to_their_servers(self):
        drawn = tapfinger.draw_tasks(random.Random(1), servers=3, rate=2, total=500)
        self.assertEqual(len(drawn), 500)
        self.assertEqual({len(task["servers"]) for task in drawn}, {1, 2, 3})
        self.assertAlmostEqual(drawn[-1]["arrival"], 250, delta=40)

    def test_policies_run(self):
        lists = [tapfinger.as_list(tasks(True, True), 1), tapfinger.as_list(tasks(False), 2)]
        means = tapfinger.simulate(PROGRAM, lists, 20)
        self.assertEqual(means["first-come"], [6, 2])
        self.assertEqual(means["first-come, least ranks"][0], 4)
        self.assertEqual(means["search"], [4, 2])
        self.assertEqual(means["bound"], [4, 2])


if __name__ == "__main__":
    unittest.main()
