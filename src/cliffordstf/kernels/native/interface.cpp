// The C interface: errors become a text and a return value; nothing is thrown across the border.
#include <new>

#include "runtime.h"

namespace cstf {
#ifndef CSTF_NO_FLOAT
std::unique_ptr<AnyModel> s_open(const Archive& archive);
#endif
#ifndef CSTF_NO_DOUBLE
std::unique_ptr<AnyModel> d_open(const Archive& archive);
#endif
}  // namespace cstf

struct cstf_model {
    std::unique_ptr<cstf::AnyModel> model;
};
struct cstf_workspace {
    std::unique_ptr<cstf::AnyWorkspace> work;
};

namespace {

thread_local std::string last_error;

template <class F>
int guarded(F&& action) {
    try {
        action();
        return 0;
    } catch (const std::bad_alloc&) {
        last_error = "there is not enough memory";
    } catch (const std::exception& error) {
        last_error = error.what();
    }
    return 1;
}

cstf_model* opened(const cstf::Archive& archive, const std::string& precision) {
    auto result = std::make_unique<cstf_model>();
#ifndef CSTF_NO_FLOAT
    if (precision == "float32") result->model = cstf::s_open(archive);
#endif
#ifndef CSTF_NO_DOUBLE
    if (precision == "float64") result->model = cstf::d_open(archive);
#endif
    if (!result->model) throw std::runtime_error("this library has no precision '" + precision + "'");
    return result.release();
}

}  // namespace

extern "C" {

int cstf_interface(void) { return CSTF_INTERFACE; }
const char* cstf_error(void) { return last_error.c_str(); }

cstf_model* cstf_open(const char* path, const char* precision) {
    cstf_model* result = nullptr;
    if (guarded([&] { result = opened(cstf::Archive::read(path), precision); }))
        last_error = "the model " + std::string(path) + " cannot be used: " + last_error + ".";
    return result;
}
cstf_model* cstf_open_memory(const void* bytes, size_t size, const char* precision) {
    cstf_model* result = nullptr;
    if (guarded([&] { result = opened(cstf::Archive(static_cast<const char*>(bytes), size), precision); }))
        last_error = "the model cannot be used: " + last_error + ".";
    return result;
}
void cstf_close(cstf_model* model) { delete model; }
void cstf_describe(const cstf_model* model, cstf_description* result) { model->model->describe(*result); }

cstf_workspace* cstf_workspace_new(const cstf_model* model) {
    cstf_workspace* result = nullptr;
    guarded([&] { result = new cstf_workspace{model->model->workspace()}; });
    return result;
}
void cstf_workspace_free(cstf_workspace* workspace) { delete workspace; }

int cstf_set_threads(cstf_workspace* workspace, int64_t threads) {
    return guarded([&] { workspace->work->set_threads(threads); });
}
int cstf_set_memory(cstf_workspace* workspace, double bytes) {
    return guarded([&] { workspace->work->set_memory(bytes); });
}
int cstf_set_exchange(cstf_workspace* workspace, cstf_exchange exchange, void* user) {
    return guarded([&] { workspace->work->set_exchange(exchange, user); });
}
int cstf_set_neighbours(cstf_workspace* workspace, const cstf_neighbours* neighbours) {
    return guarded([&] { workspace->work->set_neighbours(*neighbours); });
}
int cstf_evaluate(cstf_workspace* workspace, const double* vectors, const cstf_results* results) {
    return guarded([&] {
        cstf::Evaluation e{};
        e.vectors = vectors, e.results = *results;
        workspace->work->evaluate(e);
    });
}

// What only the Python package uses, which is built together with the library.

int cstf_set_edges(cstf_workspace* workspace, const cstf::Graph* graph, const int64_t* numbers, int64_t structures,
                   const int64_t* structure_of_atom) {
    return guarded([&] { workspace->work->set_edges(*graph, 0, numbers, structures, structure_of_atom); });
}
int cstf_evaluate_at(cstf_workspace* workspace, const cstf::Evaluation* evaluation) {
    return guarded([&] { workspace->work->evaluate(*evaluation); });
}
int cstf_train_forward(cstf_workspace* workspace, const double* vectors, void* energies, void* gradients) {
    return guarded([&] { workspace->work->train_forward(vectors, energies, gradients); });
}
int cstf_train_backward(cstf_workspace* workspace, const void* of_energies, const void* of_gradients, void* const* weights) {
    return guarded([&] { workspace->work->train_backward(of_energies, of_gradients, weights); });
}
int cstf_set_weights(cstf_model* model, const void* const* numbers) {
    return guarded([&] { model->model->set_weights(numbers); });
}
int64_t cstf_weights(const cstf_model* model) { return model->model->weights(); }
const char* cstf_weight_name(const cstf_model* model, int64_t index) { return model->model->weight_name(index); }
int64_t cstf_operators(const cstf_model* model) { return model->model->operators(); }
const char* cstf_operator_name(const cstf_model* model, int64_t index) { return model->model->operator_name(index); }
int cstf_profile(cstf_workspace* workspace, int on, double* seconds) {
    return guarded([&] {
        const std::vector<double> found = workspace->work->take_seconds();
        if (seconds) std::copy(found.begin(), found.end(), seconds);
        workspace->work->set_profile(on != 0);
    });
}

}  // extern "C"
