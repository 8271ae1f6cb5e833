import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { type ImageFile, imageFiles } from "./_image-text.ts";
import { docker } from "./_local-project.ts";

/** Values by the names of their secrets. */
export type Secrets = Readonly<Record<string, string>>;

/** Where a secret of a service is readable: in an image, its history and settings, a container's settings and log, a checkout. */
export function tracesOf(serviceName: string, cwd: string, secrets: Secrets): string[] {
  const list = (...words: string[]) =>
    docker(...words)
      .split("\n")
      .filter(Boolean);
  const images = list(
    ...["image", "ls", "--format", "{{.Repository}}:{{.Tag}}", `agent-control-service/${serviceName}`],
  );
  const containers = list("ps", "--all", "--format", "{{.Names}}", "--filter", `name=${serviceName}.`);
  if (images.length === 0 || containers.length === 0) throw new Error(`Nothing of ${serviceName} was found`);
  return [
    ...images.flatMap((image) => [...tracesInImage(image, secrets)]),
    ...containers.flatMap((name) => [
      ...tracesIn([{ file: `settings of ${name}`, bytes: Buffer.from(docker("inspect", name)) }], secrets),
      ...tracesIn([{ file: `log of ${name}`, bytes: logOf(name) }], secrets),
    ]),
    ...tracesIn(filesBelow(cwd), secrets),
  ];
}

/** The parts of an image that have a secret, each with the name of the secret. */
export function* tracesInImage(image: string, secrets: Secrets): Generator<string> {
  yield* tracesIn([{ file: "history", bytes: Buffer.from(docker("history", "--no-trunc", image)) }], secrets);
  yield* tracesIn([{ file: "settings", bytes: Buffer.from(docker("image", "inspect", image)) }], secrets);
  yield* tracesIn(imageFiles(image), secrets);
}

function* tracesIn(parts: Iterable<ImageFile>, secrets: Secrets): Generator<string> {
  for (const { file, bytes } of parts)
    for (const [name, value] of Object.entries(secrets)) if (bytes.includes(value)) yield `${file}: ${name}`;
}

function logOf(container: string): Buffer {
  return execFileSync("sh", ["-c", 'docker logs "$0" 2>&1', container]);
}

function* filesBelow(folder: string): Generator<ImageFile> {
  for (const file of readdirSync(folder, { recursive: true, encoding: "utf8" }))
    if (statSync(join(folder, file)).isFile()) yield { file, bytes: readFileSync(join(folder, file)) };
}
