import { writeAll } from "../_fixture.ts";
import { docker, freePort } from "../_local-project.ts";
import { postgresImage } from "../_postgres-image.ts";
import { type Checkout, site } from "./site.ts";

/** What the package.json of a service with a database names. */
export function writeManifest(cwd: string, name: string): void {
  const dependencies = { pg: "^8", "agent-control-service": "*" };
  writeAll(cwd, { "package.json": JSON.stringify({ name, type: "module", dependencies }) });
}

/** A service with a database beside it, and its project. */
export async function withDatabase(sshConfig: string) {
  const at = await site(sshConfig, await freePort());
  const image = postgresImage();
  const checkout = (): Checkout => {
    const made = at.checkout();
    writeManifest(made.cwd, at.name);
    return made;
  };
  const mine = checkout();
  const { start, expectStatuses } = at;
  const database = `${at.serviceName}.postgres`;
  const query = (text: string) =>
    docker("exec", database, "psql", "-U", "service", "-d", "service", "-Atc", text);
  return { at, mine, checkout, image, database, query, start, expectStatuses };
}
