// @long
import { describe, expect, it, onTestFinished } from "vitest";
import { up } from "../../src/deploy/up.ts";
import { FLOWS } from "./flow/clouds.ts";
import { openSite } from "./flow/site.ts";

describe.each(FLOWS)("$name", (flow) => {
  it("lists the environments of a project by its own marks, on all pages, with their expiry", async () => {
    const site = await openSite(flow, { real: false });
    onTestFinished(() => site.close());
    const release = async (name: string, env: string, expires?: string) => {
      const deployment = await site.open({ name, env, expires });
      try {
        await up(deployment, async () => true);
        return await deployment.session.inspect();
      } finally {
        await deployment.close();
      }
    };

    await release("hello", "dev");
    await release("hello-other", "dev");
    const preview = await release("hello", "preview-a", "7d");
    const deployment = await site.open();
    const found = await deployment.session.environments?.();
    await deployment.close();

    expect(found?.map(({ environment }) => environment).sort()).toEqual(["dev", "preview-a"]);
    expect(preview?.env?.SVC_EXPIRES).toMatch(/^\d{4}-\d\d-\d\dT\d\d:00:00.000Z$/);
    expect(site.cloud.recorder.violations).toEqual([]);
  });
});
