"""The picture of an update by ranks: what lies when, and beside what."""

import xml.etree.ElementTree as ElementTree


def trace(late: float = 0.0) -> dict[str, object]:
    return {
        "began": 10.0 + late,
        "ended": 11.0,
        "waited": 0.06,
        "marks": [("output", 10.5), ("decoder", 10.7), ("", 10.9)],
        "spans": [("output.W", 10.5, 10.6), ("encoder.0.forward.W_x", 10.9, 10.95)],
    }


def test_blocks_lie_where_they_were_on_the_clock() -> None:
    from gradient_traffic import COLOURS, LEFT, RIGHT, STEP, WAITING, WIDTH, draw

    updates = [[{"seconds": seconds, "trace": trace(late)} for seconds in (3.0, 1.0, 2.0)] for late in (0.0, 0.1)]
    root = ElementTree.fromstring(draw(updates))  # noqa: S314 - our own
    space = "{http://www.w3.org/2000/svg}"
    boxes = [
        (box.get("fill"), float(box.get("x", "")), float(box.get("width", "")))
        for box in list(root.iter(f"{space}rect"))[1:]
    ]
    second = WIDTH - LEFT - RIGHT
    expected = [
        ("output", 0.0, 0.5),
        ("decoder", 0.5, 0.2),
        ("rest", 0.7, 0.2),
        (WAITING, 0.9, 0.06),
        (STEP, 0.96, 0.04),
        ("output", 0.5, 0.1),
        ("rest", 0.9, 0.05),
    ]
    assert len(boxes) == 2 * len(expected)
    for (colour, x, width), (part, start, length) in zip(boxes, expected, strict=False):
        assert colour == COLOURS.get(part, part)
        assert abs(x - LEFT - start * second) < 0.1 and abs(width - length * second) < 0.1
    assert abs(boxes[len(expected)][1] - LEFT - 0.1 * second) < 0.1, "the other rank began later"
