import * as v from "valibot";
import type { Caller } from "../../audit/caller.ts";
import { ServiceError } from "../../base/errors.ts";
import { type Files, UPLOAD_KEEP, uploadNotFound } from "../../entities/files.ts";
import type { FileUpload } from "../../models/file.ts";
import { EntityIdSchema } from "../../models/scalars.ts";
import { Answer } from "../answer.ts";
import { isMultipart, readMultipart } from "../multipart.ts";
import type { HttpEvent, RouteDefinition } from "../route.ts";
import { routesOf } from "../topic-routes.ts";
import { assertPlain, incoming, uploaderOf } from "../uploads.ts";
import type { MachineParts } from "./parts.ts";

const keyRoute = routesOf({ auth: "key", tag: "Files", needs: "answer", narrows: true });
/** The version of the protocol for uploads that can be continued: tus.io/protocols/resumable-upload. */
const TUS = "1.0.0";

/** An upload, as clients see it. */
export const UploadSchema = v.object({
  /** Send `{ "upload": "<this>" }` in a field that takes a file. */
  upload: v.string(),
  name: v.string(),
  type: v.string(),
  /** Bytes that have arrived. */
  size: v.number(),
  /** Bytes that it will have, if that was said. */
  length: v.nullable(v.number()),
  /** Of the content, once all of it has arrived. */
  sha256: v.nullable(v.string()),
  expires_at: v.string(),
});

/** Uploading files: for any job, and for one, which a token of it allows. */
export function fileRoutes(parts: MachineParts): RouteDefinition[] {
  return [...uploadRoutes(parts, false), ...uploadRoutes(parts, true)];
}

/** Uploads in one request, or in parts that can be continued after a lost connection. */
function uploadRoutes({ prefix, files, seen }: MachineParts, isOfJob: boolean): RouteDefinition[] {
  const path = isOfJob ? `${prefix}/jobs/{id}/uploads` : `${prefix}/files`;
  const token = isOfJob ? { token: { scope: "answer", job: "id" } as const } : {};
  const [suffix, where] = isOfJob ? [" for a job", " For answers to the questions of this job."] : ["", ""];
  const upload = EntityIdSchema;
  type Path = { readonly id?: string; readonly upload: string };
  const PlaceSchema = isOfJob ? v.object({ id: EntityIdSchema }) : undefined;
  const PathSchema = (
    isOfJob ? v.object({ id: EntityIdSchema, upload }) : v.object({ upload })
  ) as v.GenericSchema<Path>;
  /** Whose uploads a caller may use here; rejects where it does not see the job. */
  const ownerAt = async (caller: Caller, params: { readonly id?: string } | undefined) => {
    if (params?.id !== undefined) await seen(caller).jobs.get(params.id);
    return uploaderOf(caller);
  };
  const own = (upload: FileUpload, owner: string | null) => {
    assertOwn(upload, owner);
    return upload;
  };
  return [
    keyRoute({
      ...token,
      method: "POST",
      path,
      summary: `Upload a file${suffix}`,
      params: PlaceSchema,
      description: `The body is the content, \`Content-Type\` its type, \`name\` its name. The response has the \`upload\` that a field of a start request or of an answer takes: \`{"upload": "…"}\`. An upload that no job uses is removed after a day. A content that is not of its type is refused. A form with one file, \`multipart/form-data\`, is accepted too. With \`Tus-Resumable: ${TUS}\` and \`Upload-Length\`, it only makes room, and the content is sent with \`PATCH\` in parts.${where}`,
      query: v.object({ name: v.optional(v.pipe(v.string(), v.maxLength(500)), "") }),
      streamsBody: true,
      rawBody: true,
      status: 201,
      responses: { 201: { description: "The upload", schema: UploadSchema } },
      handler: async ({ params, query, event, caller }) => {
        assertPlain(event);
        const access = await ownerAt(caller, params);
        const at = (id: string): [string, string] => ["location", `${event.url.pathname}/${id}`];
        const { headers } = event.req;
        if (headers.has("tus-resumable")) {
          const { filename, filetype } = readMetadata(headers.get("upload-metadata"));
          const begun = await files.begin({
            ...{ access, name: query.name || (filename ?? ""), type: filetype },
            length: readNumber(headers.get("upload-length"), "Upload-Length"),
          });
          // There is nothing to send of an empty file.
          const upload = await files.completed(begun.id);
          return new Answer(toUpload(upload), 201, [at(upload.id), ...tusHeaders(upload)]);
        }
        const upload = isMultipart(event)
          ? await addFromForm(files, event, { access, name: query.name })
          : await files.add(
              {
                ...{ access, name: query.name, type: headers.get("content-type") ?? undefined },
                length: headers.has("content-length") ? Number(headers.get("content-length")) : null,
              },
              incoming(event),
            );
        return new Answer(toUpload(upload), 201, [at(upload.id)]);
      },
    }),
    keyRoute({
      ...token,
      method: "GET",
      path: `${path}/{upload}`,
      summary: `Show an upload${suffix}`,
      description:
        "Also with `HEAD`: the header `Upload-Offset` says how much has arrived, and so where to continue.",
      params: PathSchema,
      responses: { 200: { description: "The upload", schema: UploadSchema } },
      handler: async ({ params, caller }) => {
        const upload = own(await files.completed(params.upload), await ownerAt(caller, params));
        return new Answer(toUpload(upload), 200, tusHeaders(upload));
      },
    }),
    keyRoute({
      ...token,
      method: "PATCH",
      path: `${path}/{upload}`,
      summary: `Send a part of an upload${suffix}`,
      description:
        "The body is what comes after the bytes that have arrived, as many as `Upload-Offset` says; with another offset it is refused with 409. What arrives before a connection is lost is kept. `Content-Type` is `application/offset+octet-stream`.",
      params: PathSchema,
      streamsBody: true,
      rawBody: true,
      responses: { 204: { description: "It has arrived; `Upload-Offset` says how much there is" } },
      handler: async ({ params, event, caller }) => {
        const offset = readNumber(event.req.headers.get("upload-offset"), "Upload-Offset");
        assertPart(event);
        own(await files.find(params.upload), await ownerAt(caller, params));
        const upload = await files.append(params.upload, offset, incoming(event));
        return new Response(null, { status: 204, headers: tusHeaders(upload) });
      },
    }),
    keyRoute({
      ...token,
      method: "DELETE",
      path: `${path}/{upload}`,
      summary: `Remove an upload${suffix}`,
      description: "A content that a job names stays.",
      params: PathSchema,
      responses: { 204: { description: "It is removed" } },
      handler: async ({ params, caller }) => {
        own(await files.find(params.upload), await ownerAt(caller, params));
        await files.discard(params.upload);
      },
    }),
  ];
}

/** Rejects where an upload is somebody else's: it does not exist for the caller. */
export function assertOwn({ id, access }: FileUpload, owner: string | null): void {
  if (owner !== null && access !== owner) throw uploadNotFound(id);
}

/** Stores the only file of a form. */
export async function addFromForm(
  files: Files,
  event: HttpEvent,
  { access, name }: { readonly access: string | null; readonly name: string },
): Promise<FileUpload> {
  let upload: FileUpload | undefined;
  const refuse = async (why: string) => {
    if (upload) await files.discard(upload.id);
    return new ServiceError("invalid_request", `The form has ${why}`, {
      status: 400,
      detail: "Send one file in each request.",
    });
  };
  await readMultipart(event, async (file, content) => {
    if (upload) throw await refuse("several files");
    upload = await files.add({ access, name: name || file.name, type: file.type }, content);
    return upload.id;
  });
  return upload ?? Promise.reject(await refuse("no file"));
}

function toUpload({ id, name, type, received, length, sha256, touched_at }: FileUpload) {
  const expires_at = new Date(Date.parse(touched_at) + UPLOAD_KEEP).toISOString();
  return { upload: id, name, type, size: received, length, sha256, expires_at };
}

function tusHeaders({ received, length }: FileUpload): [string, string][] {
  return [
    ["tus-resumable", TUS],
    ["upload-offset", String(received)],
    ...(length === null ? [] : [["upload-length", String(length)] as [string, string]]),
  ];
}

function readNumber(text: string | null, name: string): number {
  const value = /^\d{1,15}$/.test(text ?? "") ? Number(text) : Number.NaN;
  if (Number.isSafeInteger(value)) return value;
  throw new ServiceError("invalid_request", `The header ${name} must be a whole number of bytes`, {
    status: 400,
  });
}

function assertPart({ req }: HttpEvent): void {
  if (req.headers.get("content-type")?.split(";")[0]?.trim() === "application/offset+octet-stream") return;
  throw new ServiceError("unsupported_media_type", "A part of an upload has another type", {
    detail: "Send it with Content-Type: application/offset+octet-stream.",
  });
}

/** `filename ZmlsZQ==,filetype dGV4dA==`: the values are base64. */
function readMetadata(text: string | null): { filename?: string; filetype?: string } {
  const found = new Map(
    (text ?? "").split(",").map((part) => {
      const [key = "", value = ""] = part.trim().split(" ");
      return [key, Buffer.from(value, "base64").toString("utf8")];
    }),
  );
  const [filename, filetype] = [found.get("filename") ?? found.get("name"), found.get("filetype")];
  return { ...(filename && { filename }), ...(filetype && { filetype }) };
}
