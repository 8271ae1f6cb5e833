import * as v from "valibot";
import { type NamesOf, refuseUnknown } from "../base/refuse-unknown.ts";
import type { FileValue } from "../models/file.ts";
import { NameSchema } from "../models/scalars.ts";

export interface FileFieldOptions {
  /** Media types that are accepted, such as `application/pdf` or `image/*`. @default any */
  readonly accept?: readonly string[];
  /** Bytes that it may have. @default the service's `fileLimit` */
  readonly maxSize?: number;
}

const NAMES: NamesOf<FileFieldOptions> = { accept: true, maxSize: true };

/**
 * A schema for a file in the `fields` of an agent or of a question: those who start the job upload it first, or send a
 * small one as `{ name, data }` in base64. The handler gets `{ name, type, size, sha256 }`, and reads its content with `job.open`.
 *
 * @example
 * fields: v.object({ contract: file({ accept: ["application/pdf"], maxSize: 20 * 1024 * 1024 }) })
 */
export function file(
  options: FileFieldOptions = {},
): v.GenericSchema<
  | FileValue
  | { readonly upload: string }
  | { readonly name?: string; readonly type?: string; readonly data: string },
  FileValue
> {
  refuseUnknown(options, NAMES, "file");
  const { accept, maxSize } = options;
  const type = accept
    ? v.pipe(v.string(), v.regex(patternOf(accept), `must be ${accept.join(" or ")}`))
    : v.string();
  const bytes = v.pipe(v.number(), v.minValue(0));
  const size =
    maxSize === undefined ? bytes : v.pipe(bytes, v.maxValue(maxSize, `must be at most ${maxSize} bytes`));
  return v.object({
    name: NameSchema,
    type,
    size,
    sha256: v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/)),
  }) as v.GenericSchema<FileValue, FileValue> as v.GenericSchema<never, FileValue>;
}

function patternOf(accept: readonly string[]): RegExp {
  if (accept.length === 0) throw new TypeError("file: accept is an empty list, which accepts nothing");
  const parts = accept.map((one) => {
    if (!/^[\w.+-]+\/(?:\*|[\w.+-]+)$/.test(one))
      throw new TypeError(`file: "${one}" in accept is not a media type such as application/pdf or image/*`);
    return one.replace(/[.+]/g, "\\$&").replace("*", "[\\w.+-]+");
  });
  return new RegExp(`^(?:${parts.join("|")})$`);
}
