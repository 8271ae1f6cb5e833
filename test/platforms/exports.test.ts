// @long
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { parse } from "yaml";
import { exportRelease } from "../../src/deploy/export/export.ts";
import { up } from "../../src/deploy/up.ts";
import { hcl } from "../../src/plugins/platforms/cloud/hcl.ts";
import { FLOWS } from "./flow/clouds.ts";
import { openSite } from "./flow/site.ts";

const FILE = 'variables:\n  PRICE: "5$ or $' + '{MORE} %{if} \\"x\\""\nsecrets:\n  ERP_TOKEN:\n';
const SECRET = { ERP_TOKEN: "planted-value" };

/** Runs a parser of the tool itself over a file; says by name that it is not installed. */
function check(command: string, args: readonly string[], file: string, text: string): string | undefined {
  const folder = mkdtempSync(join(tmpdir(), "svc-export-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, file), text);
  try {
    execFileSync(command, [...args, join(folder, file)], { encoding: "utf8", stdio: "pipe" });
    return undefined;
  } catch (error) {
    const { code, stdout, stderr } = error as NodeJS.ErrnoException & { stdout: string; stderr: string };
    if (code !== "ENOENT") return `${stdout}${stderr}`;
    console.warn(`skipped: ${command} is not installed`);
    return undefined;
  }
}

/** Without plugins of its providers, Terraform can check the layout and the language of a file, not its names. */
const checkTerraform = (text: string) => check("terraform", ["fmt", "-check", "-diff"], "main.tf", text);
const checkCloudFormation = (text: string) =>
  check("cfn-lint", ["--non-zero-exit-code", "error"], "template.yaml", text);

describe.each(FLOWS.filter(({ name }) => name !== "do-app-platform"))("an export of $name", (flow) => {
  it("describes what up releases, without a secret, and changes nothing", async () => {
    const site = await openSite(flow, { real: false });
    onTestFinished(() => site.close());
    site.write("deploy.yaml", `platform: ${flow.name}\nname: hello\n${FILE}`);
    const first = await site.open({}, SECRET);
    await up(first, async () => true);
    await first.close();
    const changes = site.cloud.recorder.changes.length;
    const deployment = await site.open();
    onTestFinished(() => deployment.close());

    const terraform = await exportRelease(deployment, "terraform");
    const template = flow.name.startsWith("aws")
      ? await exportRelease(deployment, "cloudformation")
      : undefined;

    const live = await deployment.session.inspect();
    expect(site.cloud.recorder.changes.length).toBe(changes);
    expect(checkTerraform(terraform.text)).toBeUndefined();
    expect(terraform.text).toContain(`"${live?.image}"`);
    expect(terraform.text).toContain('"5$ or $${MORE} %%{if} \\"x\\""');
    expect(terraform.secrets).toEqual(["ERP_TOKEN", "SERVICE_API_KEY"]);
    expect(terraform.text).toMatch(/"?ERP_TOKEN"?/);
    expect(terraform.text + (template?.text ?? "")).not.toContain("planted-value");
    if (template === undefined) return;
    expect(checkCloudFormation(template.text)).toBeUndefined();
    const { Type, Properties } = parse(template.text).Resources.Service;
    expect(Type).toMatch(/^AWS::(ECS::ExpressGatewayService|AppRunner::Service)$/);
    expect(JSON.stringify(Properties)).toContain(`"${live?.image}"`);
    expect(JSON.stringify(Properties)).toContain("5$ or $" + "{MORE}");
  });
});

it.each(["aws-ecs-express", "aws-app-runner"])(
  "%s is not exported before its secrets are stored",
  async (name) => {
    const site = await openSite(FLOWS.find((flow) => flow.name === name)!, { real: false });
    onTestFinished(() => site.close());
    site.write("deploy.yaml", `platform: ${name}\nname: hello\n${FILE}`);
    const deployment = await site.open({}, SECRET);
    onTestFinished(() => deployment.close());

    await expect(exportRelease(deployment, "terraform")).rejects.toThrow(/not stored yet.*ERP_TOKEN/);
  },
);

it("Terraform's language is written as its own formatter writes it", () => {
  const text = hcl([
    {
      type: 'resource "a" "b"',
      attributes: {
        name: 'a"b\n',
        long_name: 1,
        none: undefined,
        map: { "x.y": "1", longer: "2" },
        list: ["a"],
      },
      blocks: [{ type: "empty" }, undefined, { type: "one", attributes: { map: {}, yes: true } }],
    },
  ]);

  expect(checkTerraform(text)).toBeUndefined();
  expect(text).not.toContain("none");
});
