import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { packPackage } from "../_built.ts";
import { REPOSITORY } from "../cli/_svc.ts";

interface Packed {
  readonly folder?: string;
  readonly tarball?: string;
  readonly manifest: Readonly<Record<string, unknown>> & { readonly name: string; readonly version: string };
}

/**
 * Serves this package as npm publishes it, and the packages of the repository, to `npm install`, by a Unix socket. `url` is
 * the address at which clients reach it.
 */
export async function servePackages(socket: string, url: string): Promise<{ close(): void }> {
  const { tarball } = await packPackage();
  const manifest = manifestOf(REPOSITORY);
  const packages = new Map<string, Packed[]>([[manifest.name, [{ tarball, manifest }]]]);
  for (const place of Object.keys(
    JSON.parse(readFileSync(join(REPOSITORY, "package-lock.json"), "utf8")).packages,
  )) {
    const folder = join(REPOSITORY, place);
    if (!place.includes("node_modules/") || !existsSync(join(folder, "package.json"))) continue;
    const name = place.slice(place.lastIndexOf("node_modules/") + "node_modules/".length);
    if (name === manifest.name) continue;
    packages.set(name, [...(packages.get(name) ?? []), { folder, manifest: manifestOf(folder) }]);
  }

  const server = createServer((request, response) => {
    const [path = "", version = ""] = decodeURIComponent(request.url ?? "")
      .slice(1)
      .split("/-/");
    const found = packages.get(path);
    if (found === undefined) return void response.writeHead(404).end("{}");
    if (version === "") {
      const versions = found.map(({ manifest: { scripts: _, ...own } }) => [
        own.version,
        { ...own, dist: { tarball: `${url}/${path}/-/${own.version}` } },
      ]);
      const latest = found[0]!.manifest.version;
      const body = { name: path, "dist-tags": { latest }, versions: Object.fromEntries(versions) };
      return void response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body));
    }
    const one = found.find(({ manifest }) => manifest.version === version);
    if (one === undefined) return void response.writeHead(404).end();
    if (one.tarball !== undefined) return void response.end(readFileSync(one.tarball));
    const args = ["--exclude", "./node_modules", "--transform", "s,^[.],package,", "-c", "."];
    const tar = spawn("tar", ["-I", "gzip -1", "-C", one.folder!, ...args], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    tar.stdout.pipe(response);
  });
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  return {
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

function manifestOf(folder: string): Packed["manifest"] {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
}
