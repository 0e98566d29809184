"""The program `atoll` with a loss or metric of Python: what train() starts where ranks are processes.

    python -m atoll._rank loss=MODULE:NAME metric=FILE:NAME -- train DATASET ...
"""

import sys

from atoll import _engine, _functions, _program
from atoll._errors import InputError


def main():
    end = sys.argv.index("--")
    given = dict(word.partition("=")[::2] for word in sys.argv[1:end])
    _program.refuse_commands("a rank looks for the functions of this script, which starts a command of "
                             "its own; put that under: if __name__ == '__main__':")
    try:
        functions = _functions.Functions(
            **{argument: _functions.found_at(place) for argument, place in given.items()})
    except InputError as error:
        print(f"atoll: error: {error}", file=sys.stderr)
        sys.exit(2)
    losses, metrics = functions.for_engine()
    sys.exit(_engine.main(["atoll", *sys.argv[end + 1:]], losses, metrics))


if __name__ == "__main__":
    main()
