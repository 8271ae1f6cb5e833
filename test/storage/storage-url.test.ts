import { describe, expect, it } from "vitest";
import { OptionsError } from "../../src/core/base/check-options.ts";
import {
  describeStorageUrl,
  storageFromUrl,
  storageFromVariable,
} from "../../src/core/storage/storage-url.ts";

describe("the URL of a storage", () => {
  it.each([
    ["s3://agents/production?region=eu-central-1", "agent-control-s3"],
    ["s3://agents?region=auto&endpoint=https://abc.r2.cloudflarestorage.com", "agent-control-s3"],
    ["gs://agents/a/b", "agent-control-gcs"],
    ["azblob://mycompany/agents/production", "agent-control-azure"],
    ["file:///mnt/backups", "agent-control-file"],
  ])("%s opens the driver %s", (url, name) => {
    expect(storageFromUrl(url, { env: {} }).name).toBe(name);
  });

  it("offers to create items only where a service is known to refuse overwriting", () => {
    const creates = (url: string) => storageFromUrl(url, { env: {} }).createItemRaw !== undefined;

    expect(creates("s3://agents?region=eu-central-1")).toBe(true);
    expect(creates("s3://agents?endpoint=https://abc.r2.cloudflarestorage.com")).toBe(true);
    expect(creates("s3://agents?endpoint=https://minio.example.com")).toBe(false);
    expect(creates("s3://agents?endpoint=https://minio.example.com&conditional=true")).toBe(true);
  });

  it.each([
    ["agents", "must look like s3://bucket"],
    ["ftp://agents", "must look like s3://bucket"],
    ["s3://AKID:hunter2@agents?region=eu-central-1", "has credentials"],
    ["s3://agents?endpoint=https://AKID:hunter2@minio.example.com", "has credentials"],
    [
      "s3://agents?region=x&secret=hunter2",
      'unknown parameter "secret": s3:// has only the parameters region',
    ],
    ["file:///folder?region=x", "file:// has no parameters"],
    ["s3://?region=x", "must name a bucket"],
    ["s3://agents?endpoint=minio", "has an endpoint that is not a URL"],
    ["s3://agents", "set region, or AWS_REGION"],
    ["azblob://mycompany", "must name an account and a container"],
    ["azblob://mycompany/agents?sas=hunter2", 'unknown parameter "sas"'],
    ["file://host/folder", "use three slashes"],
    ["gs://agents?endpoint=http://example.com", "use https"],
    ["s3://agents?region=x&conditional=yes", '"conditional", which must be true or false'],
  ])("%s is refused with what is wrong, and without its secrets", (url, says) => {
    const open = () => storageFromUrl(url, { env: {}, name: "SERVICE_STORAGE_URL" });

    expect(open).toThrow(says);
    expect(open).not.toThrow("hunter2");
  });

  it("that a variable names and that is wrong is an invalid option of the service", () => {
    const open = () => storageFromVariable("SERVICE_STORAGE_URL", "s3://agents?secret=hunter2");

    expect(open).toThrow(OptionsError);
    expect(open).toThrow("SERVICE_STORAGE_URL has the unknown parameter");
  });

  it("is shown without its parameters", () => {
    expect(describeStorageUrl("s3://agents/production?region=x")).toBe("s3://agents/production");
  });
});
