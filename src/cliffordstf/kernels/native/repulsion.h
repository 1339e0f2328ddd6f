// Short distances: the screened nuclear repulsion of Ziegler, Biersack and Littmark, and distances that have a floor; see
// algebra/repulsion.py.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace cstf {

class Repulsion {
  public:
    std::vector<double> outer, charges;  // (elements, elements), Angstrom; (elements)

    bool exists() const { return !outer.empty(); }
    double limit(int64_t a, int64_t b) const { return outer[static_cast<size_t>(a) * charges.size() + b]; }

    // Distance that the network is shown, and its derivative.
    static void floored(double d, double limit, double& found, double& slope) {
        const double width = (1 - INNER) * limit, x = share(d, limit);
        found = limit - width * (0.5 - x * x * x * x * (2.5 - 3 * x + x * x));
        slope = x * x * x * (10 - 15 * x + 6 * x * x);
    }

    // Energy of a pair, eV, and its derivative, eV/Angstrom.
    void energy(double d, int64_t a, int64_t b, double limit, double& value, double& slope) const {
        static constexpr double weight[4] = {0.18175, 0.50986, 0.28022, 0.02817};
        static constexpr double power[4] = {3.19980, 0.94229, 0.40290, 0.20162};
        const double za = charges[a], zb = charges[b], length = 0.46850 / (std::pow(za, 0.23) + std::pow(zb, 0.23));
        double screening = 0, falling = 0;
        for (int i = 0; i < 4; ++i) {
            const double part = weight[i] * std::exp(-power[i] * d / length);
            screening += part, falling += power[i] * part;
        }
        const double bare = 14.399645478 * za * zb / d, e = bare * screening;
        const double de = -bare * (screening / d + falling / length);
        const double width = (1 - INNER) * limit, x = share(d, limit);
        const double on = 1 - x * x * x * (10 - 15 * x + 6 * x * x), off = -30 * x * x * (1 - x) * (1 - x) / width;
        value = e * on;
        slope = de * on + e * off;
    }

  private:
    static constexpr double INNER = 0.75;
    static double share(double d, double limit) {
        return std::min(1.0, std::max(0.0, (d - INNER * limit) / ((1 - INNER) * limit)));
    }
};

}  // namespace cstf
