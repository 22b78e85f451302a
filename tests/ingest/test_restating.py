"""What says again the greater part of a forgotten text is known, however it is wrapped; a line in common is no restatement."""

import html
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from memory_mcp.capture.restating import Sketch
from memory_mcp.capture.tombstones import ForgetRequest, Tombstones

#: Texts of four lines in scripts with spaces and without, and of code.
TEXTS = {
    "English": (
        "We looked at the pump of the northern farm on Monday.",
        "It leaks at the second gasket, so it gets a new one in May.",
        "Until then nobody opens the valve behind the old ferry house.",
        "The bill goes to the harbour office, which ordered the work.",
    ),
    "German": (
        "Wir haben am Montag die Pumpe des Hofes im Norden angesehen.",
        "Sie ist an der zweiten Dichtung undicht und bekommt im Mai eine neue.",
        "Bis dahin öffnet niemand das Ventil hinter dem alten Fährhaus.",
        "Die Rechnung geht an das Hafenamt, das die Arbeit bestellt hat.",
    ),
    "Russian": (
        "В понедельник мы осмотрели насос северной фермы.",
        "Он протекает у второй прокладки, и в мае поставят новую.",
        "До тех пор никто не открывает клапан за старым домом паромщика.",
        "Счёт получает управление порта, которое заказало работу.",
    ),
    "Arabic": (
        "فحصنا يوم الاثنين مضخة المزرعة الشمالية.",
        "إنها تسرب عند الحشية الثانية وستحصل على واحدة جديدة في مايو.",
        "حتى ذلك الحين لا يفتح أحد الصمام خلف بيت العبارة القديم.",
        "تذهب الفاتورة إلى مكتب الميناء الذي طلب العمل.",
    ),
    "Hindi": (
        "सोमवार को हमने उत्तरी खेत का पंप देखा।",
        "वह दूसरी गैसकेट पर रिसता है इसलिए मई में नया लगेगा।",
        "तब तक पुराने घाट घर के पीछे का वाल्व कोई नहीं खोलेगा।",
        "बिल बंदरगाह कार्यालय को जाएगा जिसने काम मंगवाया था।",
    ),
    "Chinese": (
        "星期一我们检查了北边农场的水泵。",
        "第二个垫圈漏水，所以五月份要换一个新的。",
        "在那之前谁也不要打开旧渡口房子后面的阀门。",
        "账单寄给订购这项工作的港务局。",
    ),
    "Japanese": (
        "月曜日に北の農場のポンプを点検しました。",
        "二番目のガスケットから漏れているので五月に新しいものに替えます。",
        "それまで古い渡し小屋の裏のバルブは誰も開けません。",
        "請求書は作業を注文した港湾事務所に送ります。",
    ),
    "Thai": (
        "วันจันทร์เราตรวจดูปั๊มน้ำของฟาร์มทางเหนือ",
        "มันรั่วที่ปะเก็นตัวที่สองจึงจะได้ตัวใหม่ในเดือนพฤษภาคม",
        "จนกว่าจะถึงตอนนั้นห้ามใครเปิดวาล์วหลังบ้านท่าเรือเก่า",
        "ใบแจ้งหนี้ส่งไปที่สำนักงานท่าเรือซึ่งเป็นผู้สั่งงาน",
    ),
    "code": (
        "def read_pressure_of_pump(path: Path, unit: str = 'bar') -> list[float]:",
        "    rows = [row.split(',') for row in path.read_text().splitlines() if row]",
        "    if not rows or len(rows[0]) != 4: raise PressureError(f'{path} is no log')",
        "    return [scale(float(row[2]), unit) for row in rows if row[3] == 'valid']",
    ),
}
#: What programs and people do to a text that they say again.
WAYS: dict[str, Callable[[str], str]] = {
    "as it was": "{}".format,
    "in capitals": str.upper,
    "after a few words": "As you said: {} Noted.".format,
    "in one line": lambda text: " ".join(text.split()),
    "quoted": lambda text: "\n".join(f"> {line}" for line in text.splitlines()),
    "numbered": lambda text: "\n".join(f"{n:>6}\u2192{line}" for n, line in enumerate(text.splitlines(), 98)),
    "found by grep": lambda text: "\n".join(f"{n}:{line}" for n, line in enumerate(text.splitlines(), 7)),
    "in JSON": lambda text: json.dumps({"result": [{"type": "text", "text": text}]}),
    "in a page": lambda text: f"<pre>{html.escape(text)}</pre>",
    "without its first line": lambda text: text.split("\n", 1)[1],
    "with invisible characters": "\u200b".join,
}


def forgetting(place: Path, *texts: str) -> Tombstones:
    """What refuses restatements of some texts from now on, as another process sees it."""
    tombstones = Tombstones(place)
    tombstones.add(ForgetRequest(sketches=sketches(tombstones, *texts)))
    return Tombstones(place)


def sketches(tombstones: Tombstones, *texts: str) -> list[Sketch]:
    """What is kept of texts that nobody else says."""
    windows = [tombstones.hasher().hash_windows(text) for text in texts]
    made = [Sketch.from_windows(one, np.ones(len(one.hashes), dtype=np.bool_)) for one in windows]
    return [sketch for sketch in made if sketch]


@pytest.mark.parametrize("language", TEXTS)
def test_a_text_is_known_however_it_is_said_again_and_a_line_of_it_is_not(tmp_path: Path, language: str) -> None:
    lines = TEXTS[language]
    tombstones = forgetting(tmp_path, "\n".join(lines))
    missed = [way for way, change in WAYS.items() if not tombstones.restates_forgotten(change("\n".join(lines)))]
    assert missed == []
    # Each line by itself, and among the lines of another text.
    others = TEXTS["German" if language == "English" else "English"]
    kept = [*lines, *("\n".join([*others[:2], line, others[3]]) for line in lines), "\n".join(others)]
    assert [text for text in kept if tombstones.restates_forgotten(text)] == []
    # A page in which the text stands is another text.
    page = "\n".join(f"Note {n} of {n * 7} on berth {n * 13} of the pier: painted, dried and closed." for n in range(40))
    assert not tombstones.restates_forgotten(f"{page}\n{lines[0]}\n{lines[2]}")


@pytest.mark.parametrize("language", TEXTS)
def test_a_long_line_is_not_the_greater_part_of_a_text_of_several_lines(tmp_path: Path, language: str) -> None:
    long = " ".join(TEXTS[language])
    edit = f"Edit: app.py\nnew_string:\n{long}\n    return Configuration(path)"
    tombstones = forgetting(tmp_path, edit)
    assert tombstones.restates_forgotten(edit)
    assert tombstones.restates_forgotten(json.dumps({"tool": "Edit", "input": edit}))
    for text in (long, f"Why is this so:\n{long}\nIt takes a string.", edit.replace(long, TEXTS[language][0])):
        assert not tombstones.restates_forgotten(text), text


@pytest.mark.parametrize("language", TEXTS)
def test_a_text_most_of_which_others_hold_is_known_with_what_is_its_own_alone(tmp_path: Path, language: str) -> None:
    line = " ".join(TEXTS[language][:2])
    text = f"Edit: app.py\nnew_string:\n{line}\n    return Configuration(path)"
    tombstones = Tombstones(tmp_path)
    windows = tombstones.hasher().hash_windows(text)
    sketch = Sketch.from_windows(windows, ~np.isin(windows.hashes, tombstones.hasher().hash_text(line)))
    assert sketch
    tombstones.add(ForgetRequest(sketches=[sketch]))
    assert tombstones.restates_forgotten(f"As you said: {text}")
    for other in (line, f"I read it:\n{line}\nand it is fine", text.replace(line, "pass"), text.replace("app.py", "b.py")[20:]):
        assert not tombstones.restates_forgotten(other), other


def test_one_of_many_texts_is_known_and_nothing_of_them_is_in_the_file(tmp_path: Path) -> None:
    tombstones = forgetting(tmp_path, *("\n".join(lines) for lines in TEXTS.values()), "Yes, go on.")
    for lines in TEXTS.values():
        assert tombstones.restates_forgotten("\n".join(lines))
        assert not tombstones.restates_forgotten(lines[1])
    assert not tombstones.restates_forgotten("Yes, go on.")
    assert b"pump" not in (tmp_path / "tombstones.jsonl").read_bytes().lower()
