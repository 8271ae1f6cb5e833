import { createReadStream } from "node:fs";
import { mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline, Readable } from "node:stream";
import { createGzip } from "node:zlib";
import { docker } from "../../../deploy/docker.ts";
import { DeployError } from "../../../deploy/errors.ts";
import type { DeployTools } from "../../../deploy/tools.ts";
import { type Context, namesOf, onServer, THOSE_LEFT } from "./context.ts";
import { dockerError } from "./docker-error.ts";
import { nameIn, sizeIn, tarWithout } from "./tar-without.ts";

interface Image {
  readonly id: string;
  /** Digests of its layers, from the lowest. */
  readonly layers: readonly string[];
}

const FORMAT = '{"id":{{json .Id}},"layers":{{json .RootFS.Layers}}}';

/**
 * Brings an image of this machine to the server, without a registry, and resolves with its id there. Layers that the
 * server has are not sent.
 */
export async function sendImage(context: Context, ref: string): Promise<string> {
  const { tools } = context;
  const image = await localImage(tools, ref);
  const there = await serverImages(context);
  const same = there.find(({ id }) => id === image.id);
  if (same === undefined) await transfer(context, ref, image, there);
  else await onServer(context, `The image ${ref} was not tagged`, 'docker tag "$1" "$2"', [same.id, ref]);
  const what = `The image ${ref} is not on the server`;
  const found = toImage(
    await onServer(context, what, 'docker image inspect --format "$2" "$1"', [ref, FORMAT]),
  );
  if (String(found.layers) !== String(image.layers))
    throw new DeployError("failed", `The server has another image as ${ref} than was sent`, {
      detail: `Sent ${image.id}, found ${found.id}`,
      fix: "Run the same command again",
    });
  return found.id;
}

/** How the server's Docker knows the image of a record: one that svc sent by its id, one that it pulled by its name. */
export function imageIn({ target }: Context, image: string): string {
  return isSent({ target }, image) ? image.replace(/^.*@/, "") : image;
}

/** Whether svc sent an image to the server, in place of a registry. */
export function isSent({ target }: Pick<Context, "target">, image: string): boolean {
  return image.startsWith(`${namesOf(target.serviceName).repository}@`);
}

/** Has the server pull an image by its digest, with the login that Docker has there. */
export async function pullImage(context: Context, ref: string): Promise<void> {
  const pull = `docker image inspect "$1" >/dev/null 2>&1 || docker pull --quiet "$1" >/dev/null || exit
    docker image inspect --format '{{.Os}}/{{.Architecture}}' "$1" && docker version --format 'linux/{{.Server.Arch}}'`;
  const told = await onServer(context, `The server did not get the image ${ref}`, pull, [ref]);
  const [found, wanted] = told.split("\n");
  if (found === wanted) return;
  throw new DeployError("preflight", `The image ${ref} is for ${found}, and the server needs ${wanted}`, {
    outcome: "Nothing was released",
    fix: `Build it for ${wanted}: docker buildx build --platform ${wanted} …`,
  });
}

async function transfer(context: Context, ref: string, image: Image, there: readonly Image[]): Promise<void> {
  const { tools, ssh } = context;
  const folder = await mkdtemp(join(tmpdir(), "svc-image-"));
  try {
    const file = join(folder, "image.tar");
    await docker(tools, ["save", "--output", file, ref], `The image ${ref} could not be read`);
    const known = Math.max(0, ...there.map(({ layers }) => commonLength(layers, image.layers)));
    const skipped = known === 0 ? [] : (await layerFiles(file)).slice(0, known);
    tools.report(`sending ${image.layers.length - skipped.length} of ${image.layers.length} layers`);
    const load = (without: readonly string[]) =>
      ssh.script("docker load >/dev/null", [], {
        input: compressed(tarWithout(createReadStream(file), (path) => without.includes(path))),
      });
    let result = await load(skipped);
    // Some engines want every layer, even one that they have.
    if (result.code !== 0 && skipped.length > 0 && !/no space left/i.test(result.stderr))
      result = await load([]);
    if (result.code !== 0) throw dockerError(`The image ${ref} was not loaded on the server`, result);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function localImage(tools: DeployTools, ref: string): Promise<Image> {
  const what = `The image ${ref} could not be read`;
  return toImage((await docker(tools, ["image", "inspect", "--format", FORMAT, ref], what)).stdout);
}

async function serverImages(context: Context): Promise<Image[]> {
  const script = `${THOSE_LEFT}ids=$(docker image ls --quiet --no-trunc) || exit
    [ -z "$ids" ] || left docker image inspect --format "$1" $(echo "$ids" | sort -u)`;
  const text = await onServer(context, "The images of the server could not be read", script, [FORMAT]);
  return text.split("\n").filter(Boolean).map(toImage);
}

function toImage(text: string): Image {
  const { id, layers } = JSON.parse(text) as { id: string; layers: string[] | null };
  return { id, layers: layers ?? [] };
}

/** How many of the lowest layers two images share. */
function commonLength(one: readonly string[], other: readonly string[]): number {
  const end = one.findIndex((layer, index) => layer !== other[index]);
  return end < 0 ? one.length : end;
}

/** The files of an image's layers in its archive, from the lowest. */
async function layerFiles(file: string): Promise<string[]> {
  let manifest = "";
  for await (const { path, text } of smallFiles(file)) if (path === "manifest.json") manifest = text;
  const [image] = JSON.parse(manifest || "[]") as { Layers: string[] }[];
  return image?.Layers ?? [];
}

const BLOCK = 512;
/** An image's manifest is some kilobytes. */
const SMALL = 1024 * 1024;

async function* smallFiles(file: string): AsyncGenerator<{ path: string; text: string }> {
  const handle = await open(file);
  try {
    const header = Buffer.alloc(BLOCK);
    for (let at = 0; (await handle.read(header, 0, BLOCK, at)).bytesRead === BLOCK; ) {
      const size = sizeIn(header);
      if (size > 0 && size <= SMALL) {
        const content = Buffer.alloc(size);
        await handle.read(content, 0, size, at + BLOCK);
        yield { path: nameIn(header), text: content.toString("utf8") };
      }
      at += BLOCK + Math.ceil(size / BLOCK) * BLOCK;
    }
  } finally {
    await handle.close();
  }
}

function compressed(archive: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
  const gzip = createGzip({ level: 1 });
  pipeline(Readable.from(archive, { objectMode: false }), gzip, () => undefined);
  return gzip;
}
