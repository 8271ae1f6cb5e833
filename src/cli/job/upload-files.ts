import { openAsBlob } from "node:fs";
import { basename, resolve } from "node:path";
import type { AgentMethodField } from "../../core/models/agent-method-field.ts";
import type { CliContext } from "../context.ts";
import { UsageError } from "../errors.ts";
import type { ServiceClient } from "./service-client.ts";

/** Uploads what fields for files name as `@path`, several paths separated by commas; other values stay as they are. */
export async function uploadFiles(
  client: ServiceClient,
  values: Readonly<Record<string, unknown>>,
  { declared, context }: { readonly declared: readonly AgentMethodField[]; readonly context: CliContext },
): Promise<Record<string, unknown>> {
  const next: Record<string, unknown> = { ...values };
  for (const { name, field_type, type } of declared) {
    const value = values[name];
    if (field_type !== "FileField" || typeof value !== "string") continue;
    const uploads: { upload: string }[] = [];
    for (const text of type === "array" ? value.split(",") : [value])
      uploads.push(await upload(client, { name, text: text.trim(), context }));
    next[name] = type === "array" ? uploads : uploads[0];
  }
  return next;
}

async function upload(
  client: ServiceClient,
  { name, text, context }: { name: string; text: string; context: CliContext },
): Promise<{ upload: string }> {
  if (!text.startsWith("@"))
    throw new UsageError(`The field "${name}" needs a file`, `Use --field ${name}=@path.`);
  return uploadPath(client, text.slice(1), context);
}

/** Uploads a file of this machine; a path may be relative to where the command runs. */
export async function uploadPath(
  client: ServiceClient,
  given: string,
  context: CliContext,
): Promise<{ upload: string }> {
  const path = resolve(context.cwd, given);
  let content: Blob;
  try {
    content = await openAsBlob(path);
  } catch {
    throw new UsageError(`The file ${path} cannot be read`, "Name a file that exists.");
  }
  const { upload } = await client.upload<{ upload: string }>(
    `/files?name=${encodeURIComponent(basename(path))}`,
    content,
  );
  return { upload };
}
