/* Reads a model and a periodic structure, makes its periodic images ghosts, and prints what the model says of it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cliffordstf.h"

#define MOST 4096

static int64_t atoms, all, owner[MOST];

/* Features go from atoms to their images, and sums of the images come back. */
static int exchange(void* user, int reverse, void* rows, int64_t width, int bytes) {
    ++*(int*)user;
    for (int64_t i = atoms; i < all; ++i)
        for (int64_t c = 0; c < width; ++c) {
            const int64_t mine = owner[i] * width + c, image = i * width + c;
            if (bytes == 8) {
                double* x = rows;
                if (reverse) x[mine] += x[image];
                else x[image] = x[mine];
            } else {
                float* x = rows;
                if (reverse) x[mine] += x[image];
                else x[image] = x[mine];
            }
        }
    return 0;
}

static int fail(const char* what) {
    fprintf(stderr, "%s: %s\n", what, cstf_error());
    return 1;
}

int main(int count, char** words) {
    static double x[MOST][3], forces[MOST][3], atom_energies[MOST], atom_virials[MOST][9];
    static int32_t numbers[MOST];
    double cell[3], energy, virial[9];
    int calls = 0;
    if (count != 4) return 2;
    cstf_model* model = cstf_open(words[1], words[2]);
    if (!model) return fail("open");
    cstf_description about;
    cstf_describe(model, &about);
    FILE* file = fopen(words[3], "r");
    long long n = 0;
    if (!file || fscanf(file, "%lld %lf %lf %lf", &n, &cell[0], &cell[1], &cell[2]) != 4) return 2;
    atoms = all = n;
    for (int64_t i = 0; i < atoms; ++i)
        if (fscanf(file, "%d %lf %lf %lf", &numbers[i], &x[i][0], &x[i][1], &x[i][2]) != 4) return 2;
    fclose(file);
    for (int a = -1; a <= 1; ++a)
        for (int b = -1; b <= 1; ++b)
            for (int c = -1; c <= 1; ++c)
                for (int64_t i = 0; (a || b || c) && cell[0] > 0 && i < atoms; ++i, ++all) {
                    const int shift[3] = {a, b, c};
                    for (int k = 0; k < 3; ++k) x[all][k] = x[i][k] + shift[k] * cell[k];
                    numbers[all] = numbers[i], owner[all] = i;
                }
    /* Every pair once: of pairs of an atom and an image, that of the lower owner; of an atom's own images, half of them. */
    int64_t pairs = 0, room = 1000000;
    int64_t *to = malloc(room * sizeof *to), *from = malloc(room * sizeof *from);
    double* vectors = malloc(3 * room * sizeof *vectors);
    for (int64_t i = 0; i < atoms; ++i)
        for (int64_t j = i + 1; j < all; ++j) {
            double v[3], d = 0;
            for (int k = 0; k < 3; ++k) v[k] = x[j][k] - x[i][k], d += v[k] * v[k];
            const int own = j >= atoms && owner[j] == i;
            const int keep = j < atoms || owner[j] > i || (own && (v[0] > 1e-9 || (fabs(v[0]) < 1e-9 && (v[1] > 1e-9 ||
                             (fabs(v[1]) < 1e-9 && v[2] > 0)))));
            if (!keep || d >= about.cutoff * about.cutoff) continue;
            /* Turned round now and then: the order of a pair does not matter. */
            const int turn = pairs % 3 == 1;
            to[pairs] = turn ? j : i, from[pairs] = turn ? i : j;
            for (int k = 0; k < 3; ++k) vectors[3 * pairs + k] = turn ? -v[k] : v[k];
            ++pairs;
        }
    cstf_workspace* work = cstf_workspace_new(model);
    if (!work) return fail("workspace");
    const cstf_neighbours neighbours = {atoms, all - atoms, numbers, 1, NULL, pairs, to, from};
    if (cstf_set_neighbours(work, &neighbours)) return fail("neighbours");
    const cstf_results results = {&energy, atom_energies, &forces[0][0], virial, &atom_virials[0][0]};
    if (all > atoms && cstf_evaluate(work, vectors, &results) == 0) return fail("ghosts without an exchange");
    cstf_set_exchange(work, exchange, &calls);
    for (int repeat = 0; repeat < 2; ++repeat)
        if (cstf_evaluate(work, vectors, &results)) return fail("evaluate");
    for (int64_t i = atoms; i < all; ++i)
        for (int k = 0; k < 3; ++k) forces[owner[i]][k] += forces[i][k];
    double sums[9] = {0}, total = 0;
    for (int64_t i = 0; i < all; ++i)
        for (int k = 0; k < 9; ++k) sums[k] += atom_virials[i][k];
    for (int64_t i = 0; i < atoms; ++i) total += atom_energies[i];
    printf("%.17g %.17g %d\n", energy, total, calls);
    for (int k = 0; k < 9; ++k) printf("%.17g %.17g\n", virial[k], sums[k]);
    for (int64_t i = 0; i < atoms; ++i) printf("%.17g %.17g %.17g\n", forces[i][0], forces[i][1], forces[i][2]);
    cstf_workspace_free(work);
    cstf_close(model);
    free(to), free(from), free(vectors);
    return 0;
}
