import io
import random
import zipfile

import numpy as np
import pytest
from fuzz.mutations import mutated

from mtkit.arrays import read_arrays


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, src=np.arange(150) ** 2, tgt=np.ones(7))
    return path


def claiming(n: int) -> bytes:
    """An .npz file of a few hundred bytes whose only array claims n numbers."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<i8", "fortran_order": False, "shape": (n,)})
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("src.npy", header.getvalue())
    return archive.getvalue()


def single() -> bytes:
    file = io.BytesIO()
    np.save(file, np.zeros(3))
    return file.getvalue()


def test_the_arrays_are_those_that_were_saved(path):
    arrays = read_arrays(path)
    assert arrays.keys() == {"src", "tgt"}
    assert (arrays["src"] == np.arange(150) ** 2).all()


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"PK no", "not an .npz"), (single(), "not an .npz"), (claiming(10**13), "allocate"), (None, "No such file")],
)
def test_the_reason_is_given(path, content, reason):
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=reason):
        read_arrays(path)


def test_a_damaged_file_is_read_or_refused(path):
    whole, n_refused = path.read_bytes(), 0
    for seed in range(150):
        path.write_bytes(mutated(random.Random(seed), whole))
        try:
            read_arrays(path)
        except ValueError as error:
            n_refused += 1
            assert str(error), seed
    assert 0 < n_refused < 150
