import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { HttpEvent } from "../../core/http/route.ts";

/** Content that is the same for everyone, plain and compressed. */
export interface Asset {
  readonly type: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly zipped: Uint8Array<ArrayBuffer>;
  readonly tag: string;
}

const TYPES: Readonly<Record<string, string>> = {
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
};

/** Serves some files of a folder, read and compressed on first use. */
export class Assets {
  readonly #folder: URL;
  readonly #loaded = new Map<string, Promise<Asset>>();

  constructor(folder: URL) {
    this.#folder = folder;
  }

  async serve(name: string, event: HttpEvent): Promise<Response> {
    let loading = this.#loaded.get(name);
    if (!loading) {
      loading = this.#load(name);
      this.#loaded.set(name, loading);
      // Read again at the next request.
      loading.catch(() => this.#loaded.delete(name));
    }
    return answerAsset(await loading, event, "public, max-age=3600");
  }

  async #load(name: string): Promise<Asset> {
    const type = TYPES[name.slice(name.lastIndexOf(".") + 1)] ?? "application/octet-stream";
    return toAsset(await readFile(new URL(name, this.#folder)), type);
  }
}

/** Compresses content once. */
export async function toAsset(content: Uint8Array, type: string): Promise<Asset> {
  const bytes = new Uint8Array(content);
  const zipped = new Uint8Array(await promisify(gzip)(bytes));
  const tag = `"${createHash("sha256").update(bytes).digest("base64url").slice(0, 22)}"`;
  return { type, bytes, zipped, tag };
}

/** Responds with an asset, compressed if the client accepts it, or with 304 if the client has it. */
export function answerAsset({ type, bytes, zipped, tag }: Asset, event: HttpEvent, cache: string): Response {
  const headers = { "content-type": type, "cache-control": cache, etag: tag, vary: "accept-encoding" };
  if (event.req.headers.get("if-none-match") === tag) return new Response(null, { status: 304, headers });
  if (!/\bgzip\b/.test(event.req.headers.get("accept-encoding") ?? ""))
    return new Response(bytes, { headers });
  return new Response(zipped, { headers: { ...headers, "content-encoding": "gzip" } });
}
