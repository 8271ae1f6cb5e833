import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";
import { brotliCompress, gzip } from "node:zlib";

const compress = promisify(gzip);
const squeeze = promisify(brotliCompress);
/** The policy of what is no page. */
export const NOTHING_ALLOWED = "default-src 'none'; frame-ancestors 'none'";
const FOLDER = new URL("../../templates/public/admin/", import.meta.url);
const CSS = "text/css; charset=utf-8";
const SCRIPT = "text/javascript; charset=utf-8";
/** `after`: files that come before it in the same response. */
const FILES = {
  css: { file: "admin.css", type: CSS },
  js: { file: "admin.js", type: SCRIPT, after: ["htmx.min.js"] },
  morph: { file: "idiomorph-ext.min.js", type: SCRIPT },
  console: { file: "console.js", type: SCRIPT },
  answer: { file: "answer.css", type: CSS },
  files: { file: "files.css", type: CSS },
  chat: { file: "chat.css", type: CSS },
  compare: { file: "compare.css", type: CSS },
  story: { file: "story.css", type: CSS },
  uploads: { file: "uploads.js", type: SCRIPT },
  find: { file: "find.js", type: SCRIPT },
  inbox: { file: "inbox.js", type: SCRIPT },
  icons: { file: "icons.svg", type: "image/svg+xml" },
} as const satisfies Record<string, { file: string; type: string; after?: readonly string[] }>;
/** Named in style sheets, by name alone. The others are loaded by pages with letters beyond English. */
const FONTS = ["inter.woff2", "inter-latin.woff2", "inter-extended.woff2"];

export type AssetName = keyof typeof FILES | "mark";

const read = (file: string): Promise<Buffer> => readFile(new URL(file, FOLDER));

interface Asset {
  readonly type: string;
  readonly plain: Buffer;
  /** Compressed; not for what is already. */
  readonly packed?: Buffer;
  /** The same, smaller still. It takes a while, so it is made once somebody has asked for it. */
  squeezed?: Buffer | "soon";
}

/**
 * The stylesheet, scripts, fonts and icons: compressed once, addressed by their content, so that browsers cache them
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
    const byPath = new Map<string, Asset>();
    const add = async (file: string, type: string, plain: Buffer, isPacked = true) => {
      const path = `${createHash("sha256").update(plain).digest("base64url").slice(0, 10)}/${file}`;
      byPath.set(path, { type, plain, ...(isPacked && { packed: await compress(plain, { level: 9 }) }) });
      return path;
    };
    const fonts = await Promise.all(
      FONTS.map(async (file) => [file, await add(file, "font/woff2", await read(file), false)] as const),
    );
    const withFonts = (css: Buffer) =>
      Buffer.from(
        fonts.reduce((text, [file, path]) => text.replace(`url(${file})`, `url(../${path})`), `${css}`),
      );

    const mark = `data:image/svg+xml;base64,${(await read("mark.svg")).toString("base64")}`;
    const urls = { mark } as Record<AssetName, string>;
    await Promise.all(
      Object.entries(FILES).map(async ([name, { file, type, ...rest }]) => {
        const parts = await Promise.all([...("after" in rest ? rest.after : []), file].map(read));
        const joined = parts.length > 1 ? Buffer.from(parts.join("\n;")) : parts[0]!;
        urls[name as AssetName] =
          `/admin/assets/${await add(file, type, type === CSS ? withFonts(joined) : joined)}`;
      }),
    );
    return new Assets(urls, byPath);
  }

  /** The content of a file, for a page that has it inline. */
  text(name: keyof typeof FILES): string {
    return this.#byPath.get(this.urls[name].slice("/admin/assets/".length))!.plain.toString();
  }

  /** The response for a path below `/admin/assets/`, `undefined` if there is no such file. */
  answer(path: string, acceptEncoding: string | null): Response | undefined {
    const asset = this.#byPath.get(path);
    if (!asset) return undefined;
    const takes = (encoding: RegExp) => encoding.test(acceptEncoding ?? "");
    const squeezed = takes(/\bbr\b/) ? squeezedOf(asset) : undefined;
    const packed = squeezed ?? (takes(/\bgzip\b/) ? asset.packed : undefined);
    return new Response(new Uint8Array(packed ?? asset.plain), {
      headers: {
        "content-type": asset.type,
        "cache-control": "public, max-age=31536000, immutable",
        vary: "accept-encoding",
        "content-security-policy": NOTHING_ALLOWED,
        "x-content-type-options": "nosniff",
        ...(packed && { "content-encoding": squeezed ? "br" : "gzip" }),
      },
    });
  }
}

/** Brotli of a file; `undefined` at first, while it is made for later requests. */
function squeezedOf(asset: Asset): Buffer | undefined {
  if (!asset.packed) return undefined;
  if (asset.squeezed === undefined) {
    asset.squeezed = "soon";
    void squeeze(asset.plain).then(
      (bytes) => {
        asset.squeezed = bytes;
      },
      () => {},
    );
  }
  return asset.squeezed === "soon" ? undefined : asset.squeezed;
}
