# Shared by gpu-pack.sh and gpu-rebuild.sh (source it).

# link_packed FOLDER PROGRAM OUTPUT [OBJECT...]: links a program from what gpu_pack.py has collected
# in FOLDER. The objects stand first: of what they define nothing is taken from the archives.
link_packed() {
  local folder=$1 program=$2 output=$3 words
  shift 3
  mapfile -t words <"$folder/link/$program.words"
  # Written beside and renamed: a program that runs can't be overwritten. Relative paths are of FOLDER.
  (cd "$folder" &&
    "${CXX:-c++}" -o "$output.part" "$@" "${words[@]//\\\$/\$}" && mv "$output.part" "$output")
}
