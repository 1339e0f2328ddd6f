import pytest
import torch

from cliffordstf.algebra import wigner


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ((1, 1, 0, 0, 0, 0), -((1 / 3) ** 0.5)),
        ((2, 2, 0, 1, -1, 0), -((1 / 5) ** 0.5)),
        ((2, 1, 1, 0, 0, 0), (2 / 15) ** 0.5),
        ((2, 1, 1, 1, -1, 0), -((1 / 10) ** 0.5)),
        ((2, 2, 2, 0, 0, 0), -((2 / 35) ** 0.5)),
        ((3, 2, 1, 0, 0, 0), -((3 / 35) ** 0.5)),
        ((1, 1, 1, 0, 0, 0), 0.0),
        ((1, 1, 3, 0, 0, 0), 0.0),
    ],
)
def test_tabulated_3j_symbols(arguments, value):
    assert wigner.wigner_3j(*arguments) == pytest.approx(value, abs=1e-15)


@pytest.mark.parametrize("l1", range(4))
@pytest.mark.parametrize("l2", range(4))
def test_clebsch_gordan_coefficients_are_orthogonal(l1, l2):
    rows = [wigner.coupling_matrix(l1, l2, l3).flatten(0, 1) for l3 in range(abs(l1 - l2), l1 + l2 + 1)]
    matrix = torch.cat(rows, dim=1)
    identity = torch.eye(len(matrix), dtype=matrix.dtype)
    torch.testing.assert_close(matrix.T.conj() @ matrix, identity, rtol=0, atol=1e-14)


@pytest.mark.parametrize("degree", range(6))
def test_spherical_basis_is_orthonormal_symmetric_and_traceless(degree):
    basis = wigner.spherical_basis(degree)
    flat = basis.reshape(2 * degree + 1, -1)
    identity = torch.eye(2 * degree + 1, dtype=flat.dtype)
    torch.testing.assert_close(flat @ flat.conj().T, identity, rtol=0, atol=1e-14)
    if degree >= 2:
        torch.testing.assert_close(basis.transpose(1, 2), basis, rtol=0, atol=1e-14)
        assert basis.diagonal(dim1=1, dim2=2).sum(-1).abs().max() < 1e-14
