# The formula of a release, with the checksum of its source distribution, is made by packaging/manifests.py --release; this one
# has none, so that nothing is installed by it unchecked.
class MemoryMcp < Formula
  desc "Long-term memory for coding agents"
  homepage "https://github.com/memory-mcp-tree/memory-mcp"
  url "https://github.com/memory-mcp-tree/memory-mcp/releases/download/v0.1.0/memory_mcp_tree-0.1.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license all_of: ["MIT", "Apache-2.0"]

  depends_on "python@3.13"

  # Its libraries come as wheels: DuckDB and NumPy take an hour to compile.
  def install
    system Formula["python@3.13"].opt_bin/"python3.13", "-m", "venv", libexec
    system libexec/"bin/pip", "install", "--quiet", "--constraint", "constraints.txt", "."
    bin.install_symlink libexec/"bin/memory-mcp"
  end

  test do
    assert_equal "memory-mcp #{version}\n", shell_output("#{bin}/memory-mcp --version")
    assert_match "verified: stored word for word", shell_output("#{bin}/memory-mcp try --sample")
  end
end
