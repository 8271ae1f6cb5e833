// @long
import { afterAll, beforeAll, describe, it } from "vitest";
import { limitOf, shareOf } from "../_share.ts";
import { BUCKETS } from "../platforms/flow/buckets.ts";
import { FLOWS } from "../platforms/flow/clouds.ts";
import { newProject, type Project } from "../platforms/flow/project.ts";
import { openUserSite } from "../platforms/flow/user-site.ts";
import { DEPLOY_SESSIONS, filled } from "./_deploy-lines.ts";

const SHARES = 3;

let project: Project;
beforeAll(async () => {
  project = await newProject();
}, 180_000);
afterAll(() => project[Symbol.asyncDispose]());

describe.concurrent.each(shareOf(DEPLOY_SESSIONS, SHARES))(
  "the command lines of the pages: $title",
  (session) => {
    it(
      "deploy with the packed package",
      async ({ expect }) => {
        const { platform, region, lines } = session;
        const flow = FLOWS.find(({ name }) => name === platform)!;
        const bucket = session.bucket && (await BUCKETS[platform]!());
        await using site = await openUserSite(flow, project, {
          containers: false,
          ...(region && { region }),
          ...(bucket && { machine: bucket.machine }),
        });
        if (bucket) bucket.attach(site.cloud);
        const exports: string[] = [];
        for (const { line, prints, files = {}, asks } of lines) {
          for (const [name, text] of Object.entries(files)) site.user.write(name, text);
          const typed = [...exports, asks ? `${filled(line)} --yes` : filled(line)].join("\n");
          const name = /^export (\w+)=/.exec(line)?.[1];
          // Later lines have the value that this one had.
          const shown = name === undefined ? "" : `\nprintf "export ${name}='%s'" "$${name}"`;
          const { code, stdout, stderr } = await site.user.shell(`${typed}${shown}`);
          if (name !== undefined) exports.push(stdout);
          expect(code, `${line}\n${stdout}\n${stderr}`).toBe(0);
          if (prints) expect(`${stdout}${stderr}`, line).toMatch(prints);
        }
        expect([...site.cloud.recorder.violations, ...(bucket ? bucket.violations() : [])]).toEqual([]);
        if (bucket) await bucket.close();
      },
      limitOf(120_000, SHARES),
    );
  },
);
