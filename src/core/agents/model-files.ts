import { type FileValue, filesIn, isFileValue } from "../models/file.ts";

/** Where a file is in a request: the name that it has there, and what has it. */
interface Place {
  readonly key: string;
  readonly parent: Readonly<Record<string, unknown>>;
}

/**
 * A request to a model with contents in place of its files, as the API writes them where they are: a `data:` URL in those of
 * OpenAI, a base64 source in Anthropic's, inline data in Gemini's, bytes in the AI SDK. A request without files is given back
 * as it is.
 */
export async function withContents<Request>(
  request: Request,
  read: (file: FileValue) => Promise<Uint8Array>,
): Promise<Request> {
  if (filesIn(request).size === 0) return request;
  const replace = async (value: unknown, place: Place): Promise<unknown> => {
    if (typeof value !== "object" || value === null || ArrayBuffer.isView(value)) return value;
    if (isFileValue(value)) return toContent(value, Buffer.from(await read(value)), place);
    if (Array.isArray(value)) {
      const made: unknown[] = [];
      for (const one of value) made.push(await replace(one, place));
      return made.some((one, at) => one !== value[at]) ? made : value;
    }
    const parent = value as Record<string, unknown>;
    let made: Record<string, unknown> | undefined;
    for (const [key, one] of Object.entries(parent)) {
      const next = await replace(one, { key, parent });
      if (next !== one) made = { ...(made ?? parent), [key]: next };
    }
    return made ?? value;
  };
  return (await replace(request, { key: "", parent: {} })) as Request;
}

function toContent({ type }: FileValue, bytes: Buffer, { key, parent }: Place): unknown {
  if (key === "source") return { type: "base64", media_type: type, data: bytes.toString("base64") };
  if (key === "inlineData") return { mimeType: type, data: bytes.toString("base64") };
  if (key === "image") return new Uint8Array(bytes);
  // The AI SDK says the media type beside the data; others say how it is encoded.
  if (key === "data") return "mediaType" in parent ? new Uint8Array(bytes) : bytes.toString("base64");
  return `data:${type};base64,${bytes.toString("base64")}`;
}
