/* Energies, forces and virials of a model that `cliffordstf export --to native` wrote, without Python.
 *
 * Lengths are in Angstrom, energies in eV. Functions that can fail return NULL or a number other than 0; cstf_error() then tells
 * why. A model may be used by several threads at once, each with a workspace of its own.
 */
#ifndef CLIFFORDSTF_H
#define CLIFFORDSTF_H

#include <stddef.h>
#include <stdint.h>

#define CSTF_INTERFACE 2

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cstf_model cstf_model;
typedef struct cstf_workspace cstf_workspace;

/* Version of this interface that the library has: CSTF_INTERFACE of the header it was built with. */
int cstf_interface(void);

/* Why the last call of this thread failed. */
const char* cstf_error(void);

/* Open an exported model. precision: "float32" or "float64". */
cstf_model* cstf_open(const char* path, const char* precision);
cstf_model* cstf_open_memory(const void* bytes, size_t size, const char* precision);
void cstf_close(cstf_model* model);

typedef struct {
    double cutoff;             /* Angstrom */
    int64_t elements;
    const int32_t* numbers;    /* atomic numbers (elements) */
    int64_t layers;            /* convolutions: how often features are exchanged */
    int64_t lanes;             /* numbers in a vector of this library */
    int64_t widest;            /* the most numbers an atom that cstf_exchange is called with */
    double constant;           /* eV, what the energy of a structure has beside those of its atoms */
    int is_mean;               /* whether a structure has the mean of its atoms' energies instead of their sum */
} cstf_description;
void cstf_describe(const cstf_model* model, cstf_description* result);

/* Called where features of ghosts are needed (forward) or sums for them are complete (reverse), `width` numbers an atom:
 * forward copies the rows of owned atoms to their ghosts, reverse adds the rows of ghosts to their owners. The rows of all atoms
 * lie one after the other, `bytes_per_number` is 4 or 8. A repulsion at short distances adds the energies of ghosts (8 bytes) in
 * the same way. Once set it is called equally often by everyone who evaluates the model with the same results wanted, however
 * many atoms and ghosts there are, so it may communicate. Returns 0, or anything else to stop. */
typedef int (*cstf_exchange)(void* user, int reverse, void* rows, int64_t width, int bytes_per_number);

/* Who is a neighbour of whom: every pair of atoms once. Ghosts come after the owned atoms. */
typedef struct {
    int64_t atoms, ghosts;
    const int32_t* numbers;        /* atomic numbers (atoms + ghosts) */
    int64_t structures;            /* 0 means 1 */
    const int64_t* structure;      /* of each owned atom, never decreasing; NULL for one */
    int64_t pairs;
    const int64_t* receivers;      /* (pairs) */
    const int64_t* senders;        /* (pairs) */
} cstf_neighbours;

typedef struct {
    double* energies;              /* of structures, owned atoms only */
    double* atom_energies;         /* of owned atoms */
    double* forces;                /* (atoms + ghosts, 3): those on ghosts belong to their owners */
    double* virials;               /* (structures, 3, 3): derivative of the energy with respect to a strain */
    double* atom_virials;          /* (atoms + ghosts, 3, 3): half of each pair's to each of its atoms */
} cstf_results;

cstf_workspace* cstf_workspace_new(const cstf_model* model);
void cstf_workspace_free(cstf_workspace* workspace);

/* Threads inside a call; 1 at first. */
int cstf_set_threads(cstf_workspace* workspace, int64_t threads);
/* What is called for ghosts; NULL where there are none. */
int cstf_set_exchange(cstf_workspace* workspace, cstf_exchange exchange, void* user);
/* Bytes that may be kept between the way forward and back; what does not fit is computed twice. */
int cstf_set_memory(cstf_workspace* workspace, double bytes);
int cstf_set_neighbours(cstf_workspace* workspace, const cstf_neighbours* neighbours);

/* Evaluate at vectors (pairs, 3), from receiver to sender, in the order of the pairs. Results that are NULL are not computed. */
int cstf_evaluate(cstf_workspace* workspace, const double* vectors, const cstf_results* results);

#ifdef __cplusplus
}
#endif

#endif
