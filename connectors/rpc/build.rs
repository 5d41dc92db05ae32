//! Generates messages and service from schemas/proto, without an outside compiler.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const ROOT: &str = "../../schemas/proto";
    println!("cargo::rerun-if-changed={ROOT}");
    let described = protox::compile(["rehome/v1/node.proto"], [ROOT])?;
    tonic_prost_build::configure().compile_fds(described)?;
    Ok(())
}
