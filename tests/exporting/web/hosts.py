"""Run the exported JavaScript in Node."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import nmt.exporting.web as web

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="needs Node")
SCRIPTS = Path(web.__file__).parent


def run_script(folder, script, *arguments):
    """Run a module beside the host's files, which reads arguments from `given` and writes `found`; return that."""
    for path in SCRIPTS.glob("*.js"):
        shutil.copy(path, folder)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "given.json").write_text(json.dumps(arguments))
    head = (
        'import fs from "node:fs";\nconst given = JSON.parse(fs.readFileSync("given.json"));\nlet found = null;\n'
        "const bytes = path => new Uint8Array(fs.readFileSync(path));\n"
    )
    (folder / "script.js").write_text(f'{head}{script}\nfs.writeFileSync("found.json", JSON.stringify(found));\n')
    done = subprocess.run([NODE, "script.js"], cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "found.json").read_text())
