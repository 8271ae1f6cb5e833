import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";
import { gzip } from "node:zlib";

const FOLDER = new URL("../../../public/admin/", import.meta.url);
const FILES = {
  css: { file: "admin.css", type: "text/css; charset=utf-8" },
  js: { file: "admin.js", type: "text/javascript; charset=utf-8" },
  htmx: { file: "htmx.min.js", type: "text/javascript; charset=utf-8" },
  morph: { file: "idiomorph-ext.min.js", type: "text/javascript; charset=utf-8" },
  console: { file: "console.js", type: "text/javascript; charset=utf-8" },
  answer: { file: "answer.css", type: "text/css; charset=utf-8" },
  find: { file: "find.js", type: "text/javascript; charset=utf-8" },
  inbox: { file: "inbox.js", type: "text/javascript; charset=utf-8" },
  icons: { file: "icons.svg", type: "image/svg+xml" },
  mark: { file: "mark.svg", type: "image/svg+xml" },
} as const;

export type AssetName = keyof typeof FILES;

interface Asset {
  readonly type: string;
  readonly plain: Buffer;
  readonly packed: Buffer;
}

/**
 * The stylesheet, scripts and icons: compressed once, addressed by their content, so that browsers cache them
 * permanently.
 */
export class Assets {
  /** Addresses by name, for templates. */
  readonly urls: Readonly<Record<AssetName, string>>;
  readonly #byPath: ReadonlyMap<string, Asset>;
  static #loading: Promise<Assets> | undefined;

  private constructor(urls: Record<AssetName, string>, byPath: ReadonlyMap<string, Asset>) {
    this.urls = urls;
    this.#byPath = byPath;
  }

  /** Read once in a process, for all its services. */
  static async load(): Promise<Assets> {
    Assets.#loading ??= Assets.#read();
    try {
      return await Assets.#loading;
    } catch (error) {
      Assets.#loading = undefined;
      throw error;
    }
  }

  static async #read(): Promise<Assets> {
    const urls = {} as Record<AssetName, string>;
    const byPath = new Map<string, Asset>();
    const compress = promisify(gzip);
    await Promise.all(
      Object.entries(FILES).map(async ([name, { file, type }]) => {
        const plain = await readFile(new URL(file, FOLDER));
        const packed = await compress(plain, { level: 9 });
        const hash = createHash("sha256").update(plain).digest("base64url").slice(0, 10);
        byPath.set(`${hash}/${file}`, { type, plain, packed });
        urls[name as AssetName] = `/admin/assets/${hash}/${file}`;
      }),
    );
    return new Assets(urls, byPath);
  }

  /** The content of a file, for a page that has it inline. */
  text(name: AssetName): string {
    return this.#byPath.get(this.urls[name].slice("/admin/assets/".length))!.plain.toString();
  }

  /** The response for a path below `/admin/assets/`, `undefined` if there is no such file. */
  answer(path: string, acceptEncoding: string | null): Response | undefined {
    const asset = this.#byPath.get(path);
    if (!asset) return undefined;
    const packed = /\bgzip\b/.test(acceptEncoding ?? "");
    return new Response(new Uint8Array(packed ? asset.packed : asset.plain), {
      headers: {
        "content-type": asset.type,
        "cache-control": "public, max-age=31536000, immutable",
        vary: "accept-encoding",
        "x-content-type-options": "nosniff",
        ...(packed && { "content-encoding": "gzip" }),
      },
    });
  }
}
