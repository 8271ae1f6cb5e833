import { describe, expect, it } from "vitest";
import { CloudError } from "../../src/plugins/platforms/cloud/cloud-error.ts";
import { checkEndpoint } from "../../src/plugins/platforms/cloud/endpoint.ts";
import { retrying } from "../../src/plugins/platforms/cloud/retry.ts";
import { crc32c } from "../../src/plugins/platforms/cloud-run/crc32c.ts";

const tools = { sleep: async () => undefined, report: () => undefined };

describe("custom endpoints", () => {
  it.each(["http://127.0.0.1:8080/", "http://run.localhost:1", "https://example.com"])(
    "takes %s",
    (address) => {
      expect(checkEndpoint(address, "AWS_ENDPOINT_URL")).toBe(address.replace(/\/$/, ""));
    },
  );

  it.each(["http://example.com", "http://127.0.0.1.example.com", "ftp://127.0.0.1", "nonsense"])(
    "refuses %s",
    (address) => {
      expect(() => checkEndpoint(address, "AWS_ENDPOINT_URL")).toThrow("AWS_ENDPOINT_URL");
    },
  );
});

describe("repeated calls", () => {
  const failing = (error: CloudError, times: number) => {
    let calls = 0;
    return async () => {
      calls += 1;
      if (calls <= times) throw error;
      return calls;
    };
  };

  it("repeats an idempotent call after a fault", async () => {
    const fault = new CloudError("down", { status: 503, code: "UNAVAILABLE" });

    expect(await retrying(failing(fault, 2), { tools, idempotent: true })).toBe(3);
  });

  it("does not repeat a call that may have taken effect", async () => {
    const fault = new CloudError("down", { status: 503, code: "UNAVAILABLE" });

    await expect(retrying(failing(fault, 1), { tools })).rejects.toBe(fault);
  });

  it("repeats a call that could not be queued, once it is known that it had no effect", async () => {
    const fault = new CloudError("unable to queue the operation", { status: 409, code: "ABORTED" });

    expect(await retrying(failing(fault, 2), { tools, reread: async () => undefined })).toBe(3);
    await expect(retrying(failing(fault, 1), { tools })).rejects.toBe(fault);
  });

  it("gives up on a named propagation error when its budget is spent", async () => {
    const fault = new CloudError("not yet", { status: 403, code: "PERMISSION_DENIED" });
    const propagation = [{ what: "it", matches: () => true, budget: 3000 }];

    await expect(retrying(failing(fault, 100), { tools, propagation })).rejects.toBe(fault);
  });
});

it("the checksum of a secret is Castagnoli's", () => {
  expect(crc32c(Buffer.from("123456789"))).toBe(0xe3069283);
});
