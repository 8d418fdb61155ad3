"""The tree stays readable: no folder of the product has more than 20 modules."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

PRODUCT = Path(__file__).parent.parent / "gitsync"
MOST = 20


def test_no_folder_has_more_than_20_modules() -> None:
    modules = Counter(path.parent for path in PRODUCT.rglob("*.py") if path.name != "__init__.py")
    assert modules
    crowded = {str(folder): count for folder, count in modules.items() if count > MOST}
    assert not crowded, f"split them into sub-packages: {crowded}"
