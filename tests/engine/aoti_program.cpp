// Energy and forces of one structure by a package of `cliffordstf export --to aoti`, without Python.
//
//   aoti_program PACKAGE < structure
//
// The structure is plain numbers: atoms and pairs; atomic numbers; positions; cell; receiver and sender of each pair; shifts.
#include <ATen/ATen.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <cstdio>
#include <iostream>
#include <vector>

template <class T>
at::Tensor read(std::vector<int64_t> shape, at::ScalarType type) {
    at::Tensor result = at::empty(shape, type);
    for (int64_t i = 0; i < result.numel(); ++i)
        if (!(std::cin >> result.data_ptr<T>()[i])) throw std::runtime_error("the structure is cut off");
    return result;
}

int main(int, char** arguments) {
    int64_t atoms = 0, pairs = 0;
    std::cin >> atoms >> pairs;
    std::vector<at::Tensor> structure;
    structure.push_back(read<int64_t>({atoms}, at::kLong));
    structure.push_back(read<double>({atoms, 3}, at::kDouble));
    structure.push_back(read<double>({1, 3, 3}, at::kDouble));
    structure.push_back(read<int64_t>({pairs, 2}, at::kLong));
    structure.push_back(read<double>({pairs, 3}, at::kDouble));

    torch::inductor::AOTIModelPackageLoader loader(arguments[1]);
    const std::vector<at::Tensor> found = loader.run(structure);
    std::printf("%.15g\n", found[0].item<double>());
    const at::Tensor forces = found[2].to(at::kDouble).contiguous();
    for (int64_t i = 0; i < forces.numel(); ++i) std::printf("%.15g\n", forces.data_ptr<double>()[i]);
    return 0;
}
