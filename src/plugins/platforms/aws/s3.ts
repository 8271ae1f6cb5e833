import { createHash } from "node:crypto";
import { signV4 } from "../../../core/storage/sign-v4.ts";
import { CloudError } from "../cloud/cloud-error.ts";
import { checkEndpoint } from "../cloud/endpoint.ts";
import { explainFailure } from "../cloud/explain-failure.ts";
import { retrying } from "../cloud/retry.ts";
import { isExpired } from "./aws.ts";
import { renewal } from "./aws-config.ts";
import type { AwsContext } from "./aws-context.ts";

/** A call about a bucket, not about what is in it. */
export interface S3Call {
  readonly method: "HEAD" | "PUT";
  readonly bucket: string;
  readonly region: string;
  /** Part of the bucket that is meant, such as `publicAccessBlock`. */
  readonly part?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** XML. */
  readonly body?: string;
}

/**
 * Makes a call to S3, signed with the credentials that the SDK finds: three calls do not need a client of their own. All of
 * them can be repeated.
 */
export async function sendS3(context: AwsContext, call: S3Call): Promise<void> {
  const { tools } = context;
  const url = addressOf(context, call);
  try {
    await retrying(() => once(context, call, url), { tools, idempotent: true });
  } catch (error) {
    throw explainFailure(tools, error, {
      provider: "AWS",
      url: url.href,
      login: renewal(tools.env),
      isExpired,
    });
  }
}

async function once({ aws, tools }: AwsContext, call: S3Call, url: URL): Promise<void> {
  const { method, region, body = "", headers = {} } = call;
  const sum = { "content-md5": createHash("md5").update(body).digest("base64") };
  const signed = signV4(
    {
      method,
      url,
      headers: { ...headers, ...(body === "" ? {} : { ...sum, "content-type": "application/xml" }) },
      bodyHash: createHash("sha256").update(body).digest("hex"),
    },
    { credentials: await aws.credentials(), region, now: tools.now() },
  );
  const response = await tools
    .fetch(url, {
      method,
      headers: signed,
      // It would be signed for another address.
      redirect: "manual",
      signal: AbortSignal.any([tools.signal, AbortSignal.timeout(60_000)]),
      ...(method === "HEAD" ? {} : { body }),
    })
    .catch((error: unknown) => {
      tools.signal.throwIfAborted();
      throw new CloudError(`s3 ${method} got no response (${String(error)})`, {
        status: 0,
        code: "NO_ANSWER",
        cause: error,
      });
    });
  const text = await response.text();
  if (response.ok) return;
  const tag = (name: string) => new RegExp(`<${name}>([^<]*)</${name}>`).exec(text)?.[1];
  throw new CloudError(tag("Message") ?? `s3 ${method} was answered with ${response.status}`, {
    status: response.status,
    code: tag("Code") ?? String(response.status),
  });
}

function addressOf({ tools }: AwsContext, { bucket, region, part }: S3Call): URL {
  const query = part === undefined ? "" : `?${part}=`;
  for (const name of ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]) {
    const own = tools.env[name];
    if (own) return new URL(`${checkEndpoint(own, name)}/${bucket}${query}`);
  }
  // A certificate for all buckets does not cover names with dots.
  const host = `s3.${region}.amazonaws.com`;
  return new URL(
    bucket.includes(".") ? `https://${host}/${bucket}${query}` : `https://${bucket}.${host}/${query}`,
  );
}
