/**
 * Shell functions about the volume of a service whose store is in files. A restore has a time, by which its folders are named:
 *
 * - `.restore-<time>` has the backup, until it is in its place;
 * - `leaving-<time>` gets the former files, and is `former-<time>` once it has all of them;
 * - `returning-<time>` is that folder while its files go back, and `unhealthy-<time>` has those of the backup then;
 * - `replaced-<time>` is that folder once the service was healthy with the backup.
 *
 * While files are moved, the store has the file INCOMPLETE, and no service opens it. Each function can be repeated after it
 * was killed at any line, and continues there.
 */
const FUNCTIONS = `
aside() {
  for file in *.jsonl MANIFEST.* damaged shipping svc-files; do
    [ ! -e "$file" ] || mv "$file" "$1/" || return 1
  done
}
bring() {
  for file in "$1"/*; do
    [ ! -e "$file" ] || mv "$file" . || return 1
  done
}
fill() {
  rm -rf .restore .restore-* && mkdir ".restore-$1" && tar -xf - -C ".restore-$1" &&
    (cd ".restore-$1" && sha256sum --check --quiet SUMS && rm SUMS) || { rm -rf ".restore-$1"; return 1; }
}
exchange() {
  if [ ! -d "former-$1" ]; then
    [ -d ".restore-$1" ] || return 1
    if [ ! -d "leaving-$1" ]; then
      mkdir -p .leaving || return 1
      [ ! -e INCOMPLETE ] || cp INCOMPLETE .leaving/INCOMPLETE.before || return 1
      mv .leaving "leaving-$1" || return 1
    fi
    : > INCOMPLETE && sync && aside "leaving-$1" && sync && mv "leaving-$1" "former-$1" || return 1
  fi
  bring ".restore-$1" && sync && rm -f INCOMPLETE && sync && rm -rf ".restore-$1"
}
give_back() {
  if [ ! -d "returning-$1" ]; then
    mkdir -p "unhealthy-$1" && : > INCOMPLETE && sync && aside "unhealthy-$1" && sync || return 1
    mv "former-$1" "returning-$1" || return 1
  fi
  bring "returning-$1" && sync || return 1
  if [ -e INCOMPLETE.before ]; then cp INCOMPLETE.before INCOMPLETE; else rm -f INCOMPLETE; fi || return 1
  sync && rmdir "returning-$1" && rm -f INCOMPLETE.before
}
keep() {
  [ ! -d "unhealthy-$1" ] || rmdir "unhealthy-$1" || return 1
  mv "former-$1" "replaced-$1" && sync
}
resume() {
  for folder in returning-* leaving-* former-*; do
    [ -d "$folder" ] || continue
    time=\${folder#*-}
    if [ ! -e INCOMPLETE ]; then
      case $folder in leaving-* | returning-*) rmdir "$folder" || return 1 ;; esac
    elif [ -d "returning-$time" ] || [ -d "unhealthy-$time" ]; then give_back "$time" || return 1
    else exchange "$time" || return 1
    fi
  done
  rm -rf .leaving .restore .restore-* INCOMPLETE.before
  for folder in former-*; do
    [ ! -d "$folder" ] || { echo "\${folder#*-}"; return; }
  done
}
`;

/** A function about the volume, and what it does. */
export type FilesWork = "fill" | "exchange" | "give_back" | "keep" | "resume";

/**
 * Script that runs a function with the time of a restore, in the folder of its first word: `fill` reads a tar archive with checksums
 * in SUMS, `exchange` puts the backup in the place of the former files, `give_back` undoes that, `keep` ends it. `resume`
 * completes what was interrupted, and prints the time of a restore after which nobody has seen the service healthy.
 */
export const FILES_SCRIPT = `cd "$1" || exit 1
work=$2; shift 2
${FUNCTIONS}
"$work" "$@"`;
