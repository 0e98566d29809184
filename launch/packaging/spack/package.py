from spack.package import *


class Atoll(CMakePackage, CudaPackage):
    """Trains graph neural networks on the whole graph, distributed over MPI ranks."""

    license("Apache-2.0")
    version("main", branch="main")

    variant("python", default=False, description="Build the Python package's compiled part")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("mpi@3.1:")
    depends_on("metis@5.1: ~int64")
    depends_on("onednn@2.6:2")
    depends_on("hwloc@2:")
    depends_on("cli11@2.1:")
    depends_on("spdlog")
    depends_on("fmt")
    depends_on("nlohmann-json")
    depends_on("tomlplusplus")
    depends_on("boost@1.74:")
    depends_on("libzip")
    depends_on("xxhash")
    depends_on("zlib-api")
    depends_on("python@3.9:", when="+python")
    depends_on("py-nanobind@2:", when="+python", type="build")
    depends_on("py-numpy", when="+python", type="run")

    generator("ninja")

    def cmake_args(self):
        arguments = [
            self.define("ATOLL_TESTS", False),
            self.define("ATOLL_CUDA", "on" if "+cuda" in self.spec else "off"),
            self.define_from_variant("ATOLL_PYTHON", "python"),
        ]
        if "+cuda" in self.spec:
            architectures = self.spec.variants["cuda_arch"].value
            arguments.append(self.define("CMAKE_CUDA_ARCHITECTURES", ";".join(architectures)))
        return arguments
