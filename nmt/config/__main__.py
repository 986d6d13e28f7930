"""`python -m nmt.config [schema|reference]`: print configs/schema.json or reference.yaml."""

import json
import sys

from nmt.config.reference import reference_yaml
from nmt.config.schema import config_schema


def main(arguments: list[str]) -> int:
    """Print the schema (without an argument) or the reference; return the exit status, 2 for any other argument."""
    if arguments in ([], ["schema"]):
        sys.stdout.write(json.dumps(config_schema(), indent=2, ensure_ascii=False) + "\n")
    elif arguments == ["reference"]:
        sys.stdout.write(reference_yaml())
    else:
        sys.stderr.write("usage: python -m nmt.config [schema|reference]\n")
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
