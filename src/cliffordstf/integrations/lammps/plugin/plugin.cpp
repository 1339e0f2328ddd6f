// Entry of the plugin: tells LAMMPS of the pair style.
#include "lammps_plugin.h"

#include <cstring>
#include <string>

#include "error.h"
#include "pair_cliffordstf.h"

// The release of LAMMPS whose headers the plugin was compiled with; the build sets it.
#ifndef CSTF_LAMMPS_VERSION
#error "CSTF_LAMMPS_VERSION is not defined; build with `cliffordstf lammps build`"
#endif

namespace {

void* make_pair(void* lammps) { return new LAMMPS_NS::PairCliffordSTF(static_cast<LAMMPS_NS::LAMMPS*>(lammps)); }

}  // namespace

extern "C" void lammpsplugin_init(void* lammps, void* handle, void* register_style) {
    auto* const lmp = static_cast<LAMMPS_NS::LAMMPS*>(lammps);
    // Classes of another release have other members: calling them would crash.
    if (std::strcmp(lmp->version, CSTF_LAMMPS_VERSION) != 0)
        lmp->error->all(FLERR, std::string("this plugin of cliffordstf was built for LAMMPS " CSTF_LAMMPS_VERSION ", but this is LAMMPS ") +
                                   lmp->version + "; run `cliffordstf lammps build` again");
    PluginStyle style{};
    style.lammps_version = CSTF_LAMMPS_VERSION;
    style.category = "pair";
    style.name = "cliffordstf";
    style.description = "models of cliffordstf, on their native runtime";
    style.author = "the cliffordstf developers";
    style.make.from_lammps = &make_pair;
    style.handle = handle;
    reinterpret_cast<RegisterStyle>(register_style)(&style, lammps);
}
