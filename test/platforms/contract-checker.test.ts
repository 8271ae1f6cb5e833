import { describe, expect, it } from "vitest";
import { checkAws } from "./contract/aws.ts";
import { checkDigitalOcean } from "./contract/digitalocean.ts";
import { hasContracts } from "./contract/folder.ts";
import { checkGoogle } from "./contract/google.ts";

const services = "/v2/projects/p/locations/r/services";
const container = { image: "i" };
const request = (method: string, path: string, query: Record<string, string>, body?: unknown) => ({
  method,
  path,
  query: new URLSearchParams(query),
  body,
});

const only = hasContracts ? describe : describe.skip;
only(`contract checker${hasContracts ? "" : " (skipped: no contracts beside the project)"}`, () => {
  it("accepts what Google's model accepts", () => {
    const body = { template: { containers: [container] } };

    expect(checkGoogle("run", request("POST", services, { serviceId: "s" }, body))).toEqual([]);
  });

  it.each([
    [
      "an unknown field",
      request("POST", services, { serviceId: "s" }, { template: {}, colour: "red" }),
      "colour",
    ],
    [
      "a wrong type",
      request("POST", services, { serviceId: "s" }, { template: { containers: [{ image: 7 }] } }),
      "image",
    ],
    ["a missing member", request("POST", services, { serviceId: "s" }, {}), "template"],
    ["a wrong method", request("PUT", `${services}/s`, {}, {}), "no such method"],
    ["a wrong path", request("GET", "/v2/projects/p/services/s", {}), "no such method"],
    ["an unknown query parameter", request("GET", `${services}/s`, { colour: "red" }), "colour"],
    [
      "a mask of what is not there",
      request("PATCH", `${services}/s`, { updateMask: "template,colour" }, { template: {} }),
      "mask",
    ],
  ])("finds %s in a request to Google", (_, seen, word) => {
    expect(checkGoogle("run", seen).join()).toContain(word);
  });

  it.each([
    ["an unknown field", request("POST", "/v2/apps", {}, { spec: { name: "app", colour: "red" } }), "colour"],
    [
      "a wrong type",
      request(
        "POST",
        "/v2/apps",
        {},
        { spec: { name: "app", services: [{ name: "web", http_port: "80" }] } },
      ),
      "http_port",
    ],
    ["a missing member", request("POST", "/v2/apps", {}, { spec: {} }), "name"],
    [
      "a region that is none",
      request("POST", "/v2/apps", {}, { spec: { name: "app", region: "nyc3" } }),
      "region",
    ],
    ["a wrong path", request("POST", "/v2/app", {}, {}), "no such operation"],
  ])("finds %s in a request to DigitalOcean", (_, seen, word) => {
    expect(checkDigitalOcean(seen).join()).toContain(word);
  });

  it("accepts what AWS's model accepts", () => {
    expect(checkAws("ecr", "CreateRepository", { repositoryName: "hello-dev" })).toEqual([]);
  });

  it.each([
    ["an unknown field", "ecr", "CreateRepository", { repositoryName: "hello", colour: "red" }, "colour"],
    ["a wrong type", "apprunner", "ListServices", { MaxResults: "20" }, "MaxResults"],
    ["a missing member", "apprunner", "CreateService", { ServiceName: "hello" }, "SourceConfiguration"],
    [
      "a name that is too short",
      "apprunner",
      "CreateAutoScalingConfiguration",
      { AutoScalingConfigurationName: "abc" },
      "Name",
    ],
    ["an operation that is none", "ecs", "PaintExpressGatewayService", {}, "no such operation"],
  ])("finds %s in a request to AWS", (_, service, operation, input, word) => {
    expect(checkAws(service, operation, input).join()).toContain(word);
  });
});
