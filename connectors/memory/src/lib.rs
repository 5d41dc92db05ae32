//! All ports in memory, with scripted faults, for simulation.
