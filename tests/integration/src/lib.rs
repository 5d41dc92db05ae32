//! Real processes, killed and compared.
