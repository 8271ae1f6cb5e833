import { ServiceError } from "../../../core/base/errors.ts";
import type { Files } from "../../../core/entities/files.ts";
import { type FormFile, isMultipart, readMultipart } from "../../../core/http/multipart.ts";
import { assertUtf8 } from "../../../core/http/query.ts";
import type { HttpEvent } from "../../../core/http/route.ts";

/** Stores the files of a form; `owner` says whose they are, and throws where the sender may send none. */
export interface FormFiles {
  readonly files: Files;
  readonly owner: (file: FormFile) => string | null | Promise<string | null>;
}

/** The fields of a form that may have files: in place of each is the id of its upload. */
export function readFormWithFiles(event: HttpEvent, { files, owner }: FormFiles): Promise<URLSearchParams> {
  if (!isMultipart(event)) return readForm(event);
  return readMultipart(event, async (file, content) => {
    const access = await owner(file);
    const upload = await files.add({ access, name: file.name, type: file.type }, content);
    return upload.id;
  });
}

/**
 * The fields of a form that one of our pages has sent; its size was checked before the handler was called.
 */
export async function readForm(event: HttpEvent): Promise<URLSearchParams> {
  const type = event.req.headers.get("content-type") ?? "";
  if (!/^application\/x-www-form-urlencoded\s*(;|$)/i.test(type)) {
    throw new ServiceError("unsupported_media_type", "This route expects form fields", {
      detail: "Send it as application/x-www-form-urlencoded, or use the JSON route under /admin/api.",
    });
  }
  const text = await event.req.text();
  assertUtf8(text, "form");
  return new URLSearchParams(text);
}
