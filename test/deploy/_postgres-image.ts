import { execFileSync } from "node:child_process";
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { onTestFinished } from "vitest";
import { findPostgres } from "../_require.ts";
import { docker } from "./_local-project.ts";

const PROGRAMS = ["postgres", "initdb", "psql", "pg_isready"];

/** Takes what the official image takes: user, database, a file with the password, the folder of the data. */
const ENTRYPOINT = `#!/bin/sh
set -e
as() { setpriv --reuid=1000 --regid=1000 --clear-groups "$@"; }
mkdir -p "$PGDATA"
chown -R 1000:1000 "$PGDATA"
chmod 700 "$PGDATA"
mkdir -p /var/run/postgresql
chown 1000:1000 /var/run/postgresql
if [ ! -f "$PGDATA/PG_VERSION" ]; then
  install -o 1000 -m 600 "$POSTGRES_PASSWORD_FILE" /tmp/password
  as initdb -D "$PGDATA" -U "$POSTGRES_USER" --pwfile=/tmp/password --no-sync -E UTF8 --locale=C.UTF-8 \\
    --auth-host=scram-sha-256 --auth-local=trust
  rm /tmp/password
  echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
  echo "create database $POSTGRES_DB" | as postgres --single -D "$PGDATA" postgres
fi
exec setpriv --reuid=1000 --regid=1000 --clear-groups postgres -D "$PGDATA" -c listen_addresses='*' -c unix_socket_directories=/var/run/postgresql
`;

/** An image with this machine's Postgres, as no registry is asked for the official one; removed after the test. */
export function postgresImage(): string {
  const bin = realpathSync(findPostgres()!);
  const home = dirname(bin);
  const share = execFileSync(join(bin, "pg_config"), ["--sharedir"], { encoding: "utf8" }).trim();
  const folder = mkdtempSync(join(tmpdir(), "svc-postgres-image-"));
  try {
    const root = join(folder, "root");
    const lib = join(root, "postgres-lib");
    mkdirSync(join(root, bin), { recursive: true });
    mkdirSync(lib, { recursive: true });
    for (const program of PROGRAMS) copy(join(bin, program), join(root, bin, program));
    const modules = readdirSync(join(home, "lib")).filter((name) =>
      /^(plpgsql|pg_trgm|dict_snowball)\.so$/.test(name),
    );
    mkdirSync(join(root, home, "lib"), { recursive: true });
    for (const name of modules) copy(join(home, "lib", name), join(root, home, "lib", name));
    cpSync(share, join(root, share), { recursive: true, dereference: true });
    for (const library of librariesOf(PROGRAMS.map((program) => join(bin, program))))
      copy(library, join(lib, basename(library)));
    writeFileSync(join(root, "entrypoint.sh"), ENTRYPOINT);
    chmodSync(join(root, "entrypoint.sh"), 0o755);
    writeFileSync(
      join(folder, "Dockerfile"),
      `FROM node:22-slim\nCOPY root/ /\nENV PATH=${bin}:$PATH LD_LIBRARY_PATH=/postgres-lib\nENTRYPOINT ["/entrypoint.sh"]\n`,
    );
    const name = `svc-test-postgres:${Math.random().toString(36).slice(2, 8)}`;
    docker("build", "--quiet", "--force-rm", "--tag", name, folder);
    onTestFinished(() => void docker("image", "rm", "--force", name));
    return name;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function copy(from: string, to: string): void {
  cpSync(from, to, { dereference: true });
}

/** Shared libraries, without those of the C library: the image has its own. */
function librariesOf(programs: readonly string[]): Set<string> {
  const listed = execFileSync("ldd", [...programs], { encoding: "utf8" });
  const paths = [...listed.matchAll(/=> (\/\S+)/g)].map(([, path]) => path ?? "");
  return new Set(
    paths.filter((path) => !/\/(libc|libm|libdl|libpthread|librt|libresolv|ld-linux[^/]*)\.so/.test(path)),
  );
}
