import * as v from "valibot";
import type { Caller } from "../../audit/caller.ts";
import { UPLOAD_KEEP, uploadNotFound } from "../../entities/files.ts";
import type { FileContent, FileName, FileUpload } from "../../models/file.ts";
import { fileResponse } from "../file-response.ts";
import type { RouteDefinition } from "../route.ts";
import { uploaderOf } from "../uploads.ts";
import { addFromForm, assertOwn } from "./files.ts";
import { idOfUpload, jobFileOf, uploadOfFile } from "./openai-file-ids.ts";
import { openAiRoute } from "./openai-route.ts";
import type { MachineParts } from "./parts.ts";

const FileSchema = v.object({
  id: v.string(),
  object: v.literal("file"),
  bytes: v.number(),
  created_at: v.number(),
  expires_at: v.optional(v.number()),
  filename: v.string(),
  purpose: v.string(),
  status: v.literal("processed"),
});

/** Files as clients for OpenAI send and get them: uploads, and the files of answers. */
export function openAiFileRoutes({ prefix, files, seen }: MachineParts): RouteDefinition[] {
  const path = `${prefix}/v1/files`;
  const PathSchema = v.object({ id: v.pipe(v.string(), v.maxLength(500)) });
  const findUpload = async (id: string, caller: Caller): Promise<FileUpload> => {
    const upload = await files.completed(uploadOfFile(id));
    assertOwn(upload, uploaderOf(caller));
    return upload;
  };
  /** What an id names, where the caller may see it. */
  const find = async (id: string, caller: Caller): Promise<Found> => {
    const ofJob = jobFileOf(id);
    if (ofJob) {
      await seen(caller).jobs.get(ofJob.jobId);
      const { content, file } = await files.ofJob(ofJob.jobId, ofJob.sha256);
      return { content, named: file.names[0]!, created: file.created_at };
    }
    const upload = await findUpload(id, caller);
    const content = upload.sha256 === null ? undefined : await files.content(upload.sha256);
    if (!content) throw uploadNotFound(id);
    return { content, named: upload, created: upload.touched_at, expires: expiryOf(upload) };
  };
  return [
    openAiRoute({
      method: "POST",
      path,
      needs: "start",
      summary: "Upload a file, for clients of OpenAI",
      description:
        "As OpenAI's route of that name: a form with `file`. The `id` is one for `file_id` in a message. A file that no message uses is removed after a day. Other fields of the form are ignored.",
      streamsBody: true,
      rawBody: true,
      responses: { 200: { description: "The file", schema: FileSchema } },
      handler: async ({ event, caller }) => {
        const upload = await addFromForm(files, event, { access: uploaderOf(caller), name: "" });
        return toFile(idOfUpload(upload.id), {
          ...{ named: upload, created: upload.touched_at, expires: expiryOf(upload) },
          content: { size: upload.received },
        });
      },
    }),
    openAiRoute({
      method: "GET",
      path: `${path}/{id}`,
      needs: "start",
      summary: "Show a file, for clients of OpenAI",
      description: "The name and the size of an upload, or of a file of a job, in the form of OpenAI.",
      params: PathSchema,
      responses: { 200: { description: "The file", schema: FileSchema } },
      handler: async ({ params: { id }, caller }) => toFile(id, await find(id, caller)),
    }),
    openAiRoute({
      method: "GET",
      path: `${path}/{id}/content`,
      needs: "start",
      summary: "Download a file, for clients of OpenAI",
      description: "An upload of the caller, or a file of a job, such as those of an answer.",
      params: PathSchema,
      responses: {
        200: { description: "The content", contentType: "application/octet-stream" },
        206: { description: "The part that was asked for", contentType: "application/octet-stream" },
      },
      handler: async ({ params: { id }, event, caller }) => {
        const { content, named } = await find(id, caller);
        return fileResponse(event.req, { content, named, isInline: false }, (range) =>
          files.read(content, range),
        );
      },
    }),
    openAiRoute({
      method: "DELETE",
      path: `${path}/{id}`,
      needs: "start",
      summary: "Remove an upload, for clients of OpenAI",
      description: "A content that a job names stays.",
      params: PathSchema,
      responses: {
        200: {
          description: "It is removed",
          schema: v.object({ id: v.string(), object: v.literal("file"), deleted: v.literal(true) }),
        },
      },
      handler: async ({ params: { id }, caller }) => {
        await files.discard((await findUpload(id, caller)).id);
        return { id, object: "file", deleted: true };
      },
    }),
  ];
}

interface Found {
  readonly content: FileContent;
  readonly named: Pick<FileName, "name" | "type">;
  /** ISO 8601. */
  readonly created: string;
  readonly expires?: string;
}

function toFile(
  id: string,
  {
    content,
    named,
    created,
    expires,
  }: Omit<Found, "content"> & { readonly content: { readonly size: number } },
) {
  const seconds = (time: string) => Math.floor(Date.parse(time) / 1000);
  return {
    ...{ id, object: "file", bytes: content.size, created_at: seconds(created), filename: named.name },
    ...{ purpose: "user_data", status: "processed" },
    ...(expires !== undefined && { expires_at: seconds(expires) }),
  };
}

function expiryOf({ touched_at }: FileUpload): string {
  return new Date(Date.parse(touched_at) + UPLOAD_KEEP).toISOString();
}
