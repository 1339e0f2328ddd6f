// Chemical symbols.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace cstf_lammps {

constexpr std::array<const char*, 119> SYMBOLS = {
    "",   "H",  "He", "Li", "Be", "B",  "C",  "N",  "O",  "F",  "Ne", "Na", "Mg", "Al", "Si", "P",  "S",  "Cl", "Ar", "K",
    "Ca", "Sc", "Ti", "V",  "Cr", "Mn", "Fe", "Co", "Ni", "Cu", "Zn", "Ga", "Ge", "As", "Se", "Br", "Kr", "Rb", "Sr", "Y",
    "Zr", "Nb", "Mo", "Tc", "Ru", "Rh", "Pd", "Ag", "Cd", "In", "Sn", "Sb", "Te", "I",  "Xe", "Cs", "Ba", "La", "Ce", "Pr",
    "Nd", "Pm", "Sm", "Eu", "Gd", "Tb", "Dy", "Ho", "Er", "Tm", "Yb", "Lu", "Hf", "Ta", "W",  "Re", "Os", "Ir", "Pt", "Au",
    "Hg", "Tl", "Pb", "Bi", "Po", "At", "Rn", "Fr", "Ra", "Ac", "Th", "Pa", "U",  "Np", "Pu", "Am", "Cm", "Bk", "Cf", "Es",
    "Fm", "Md", "No", "Lr", "Rf", "Db", "Sg", "Bh", "Hs", "Mt", "Ds", "Rg", "Cn", "Nh", "Fl", "Mc", "Lv", "Ts", "Og"};

// Atomic number of a symbol, 0 for something else.
inline int32_t atomic_number(const std::string& symbol) {
    for (size_t z = 1; z < SYMBOLS.size(); ++z)
        if (symbol == SYMBOLS[z]) return static_cast<int32_t>(z);
    return 0;
}

inline std::string symbol_of(int32_t z) {
    return z > 0 && z < static_cast<int32_t>(SYMBOLS.size()) ? SYMBOLS[z] : "element " + std::to_string(z);
}

}  // namespace cstf_lammps
