import { createHash } from "node:crypto";
import { ServiceError } from "../../base/errors.ts";

/** What Postgres cannot hold in a text, or sorts otherwise than JavaScript. */
const SPECIAL = /[\0\ud800-\uffff]/;
const SPECIALS = /[\0\ud800-\uffff]/g;
const STORED = /[\ue000-\ue800]|[\ud800-\udbff][\udc00-\udfff]/g;
const NUL = 0xe800;
const FIRST_HIGH = 0x10000;

/** Maximum length of an id or a log key in bytes: an index of Postgres holds no more. */
const LONGEST_KEY = 2000;

/**
 * A text as a column has it: one character for each UTF-16 code unit, so that Postgres (collation "C") finds, compares
 * and sorts it as JavaScript does, lone surrogates included. Text without emoji, private use characters and U+0000
 * stays as it is. U+0000 is sorted after U+DFFF.
 */
export function toColumn(text: string): string {
  if (!SPECIAL.test(text)) return text;
  return text.replace(SPECIALS, (unit) => {
    const code = unit.charCodeAt(0);
    if (code === 0) return String.fromCharCode(NUL);
    return code < 0xe000
      ? String.fromCharCode(code + 0x800)
      : String.fromCodePoint(code - 0xe000 + FIRST_HIGH);
  });
}

/** The reverse of `toColumn`. */
export function fromColumn(text: string): string {
  return text.replace(STORED, (character) => {
    const code = character.codePointAt(0)!;
    if (code === NUL) return "\0";
    return String.fromCharCode(code < FIRST_HIGH ? code - 0x800 : code - FIRST_HIGH + 0xe000);
  });
}

/** An id or a log key as its column has it. Throws where an index could not hold it. */
export function toKeyColumn(key: string): string {
  const text = toColumn(key);
  if (text.length * 4 > LONGEST_KEY && Buffer.byteLength(text) > LONGEST_KEY) {
    throw new ServiceError("invalid_request", `An id of ${key.length} characters cannot be stored`, {
      detail: `An id has at most ${LONGEST_KEY} bytes in a Postgres store.`,
    });
  }
  return text;
}

/** A pattern for LIKE that finds a part as it is. */
export function toPattern(part: string): string {
  return `%${toColumn(part).replace(/[\\%_]/g, "\\$&")}%`;
}

/** A name as Postgres keeps it: of one that is longer than 63 bytes, the start and a hash. */
export function nameOf(name: string): string {
  if (Buffer.byteLength(name) <= 63 && !name.includes("\0")) return name;
  return `${name.replace(/[^\x21-\x7e]/g, "").slice(0, 40)}~${hashOf(name)}`;
}

/** A quoted identifier. */
export function identifier(name: string): string {
  return `"${nameOf(name).replaceAll('"', '""')}"`;
}

/** A quoted constant. */
export function constant(text: string): string {
  const quoted = `'${text.replaceAll("'", "''").replaceAll("\\", "\\\\")}'`;
  return text.includes("\\") ? `E${quoted}` : quoted;
}

/** Ten hexadecimal digits. */
export function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 10);
}
