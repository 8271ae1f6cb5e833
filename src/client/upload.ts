import type { NamesOf } from "../core/base/refuse-unknown.ts";
import { ClientError } from "./client-error.ts";
import type { Http, RequestOptions } from "./http.ts";
import { onlyKnown, SIGNAL } from "./only-known.ts";
import { Outage } from "./outage.ts";

/** What a field of a start or of an answer takes in place of a file. */
export type Uploaded = { readonly upload: string };

export type UploadOptions = RequestOptions & {
  /** @default the name of the `File` */
  readonly name?: string;
  /** Called with the bytes that have arrived, and with all of them. */
  readonly onProgress?: (sent: number, total: number) => void;
};

const OPTIONS: NamesOf<UploadOptions> = { name: true, onProgress: true, ...SIGNAL };
/** Bytes of one request: it arrives in time also over a slow connection, and little is sent again where one breaks. */
const PART = 1024 * 1024;
/** Seconds until a part has arrived. */
const SLOWEST = 120;

/** Sends a file in parts; where the connection breaks, it continues with what the service does not have. */
export async function upload(
  http: Http,
  path: string,
  file: Blob,
  options: UploadOptions = {},
): Promise<Uploaded> {
  const { signal, onProgress, ...given } = onlyKnown(options, OPTIONS, "upload");
  const name = given.name ?? ("name" in file && typeof file.name === "string" ? file.name : "file");
  const headers = {
    ...{ "tus-resumable": "1.0.0", "upload-length": String(file.size) },
    ...(file.type && { "upload-metadata": `filetype ${btoa(file.type)}` }),
  };
  const begin = { method: "POST", repeatable: true, headers, signal } as const;
  // Where the response is lost, another upload is made; one that no job uses is removed after a day.
  const { upload: id } = await http.json<Uploaded>(`${path}?name=${encodeURIComponent(name)}`, begin);
  const at = `${path}/${encodeURIComponent(id)}`;
  const outage = new Outage(http.patience, signal);
  let sent = 0;
  onProgress?.(sent, file.size);
  while (sent < file.size) {
    try {
      await sendPart(http, at, { sent, body: file.slice(sent, sent + PART), signal });
      sent = Math.min(file.size, sent + PART);
      outage.over();
    } catch (error) {
      // Another part has arrived than it seemed: of one that was sent before.
      if (!(error instanceof ClientError && error.status === 409)) await outage.wait(error);
      const { size } = await http.json<{ size: number }>(at, { signal });
      if (size > sent) outage.over();
      else if (error instanceof ClientError && error.status === 409) throw error;
      sent = size;
    }
    onProgress?.(sent, file.size);
  }
  return { upload: id };
}

async function sendPart(
  http: Http,
  at: string,
  { sent, body, signal }: { sent: number; body: Blob } & RequestOptions,
): Promise<void> {
  const headers = {
    "tus-resumable": "1.0.0",
    "content-type": "application/offset+octet-stream",
    "upload-offset": String(sent),
  };
  await http.send(at, { method: "PATCH", tries: 1, timeout: SLOWEST, headers, body, signal });
}
