// @long
import { execFile } from "node:child_process";
import { copyFile, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { Slug } from "agent-control-service/client";
import { expect, expectTypeOf, it } from "vitest";
import { toSlug } from "../../src/core/agents/identity.ts";
import { buildPackage } from "../_built.ts";
import { shareOf } from "../_share.ts";

const MODULES = fileURLToPath(new URL("../../node_modules/", import.meta.url));

/** A page that uses the agents of another folder by their types. Each line that is wrong says so in the line before it. */
const PAGE = `
import { client, type JobEvent } from "agent-control-service/client";
import type { agents } from "./service.ts";

const service = client<typeof agents>("https://service.example", "key");
const ofModule = client<typeof import("./service.ts")>("https://service.example", async () => "token");
const ofOne = client<typeof import("./service.ts").payer>("https://service.example");
const untyped = client("https://service.example");

export async function main(): Promise<void> {
  const audit = await service.start("invoice-audit", { folder: "/in" });
  const { folder, found } = await audit.result();
  const text: string = folder;
  const count: number = found;
  const result: { folder: string; found: number } | null = (await audit.read()).result;
  const paid: "paid" | "refused" = await (await service.start("payer", { amount: 1 }, { id: "p-1" })).result();
  const nothing: null = await (await service.start("failing-no-result")).result();
  const again: "paid" | "refused" = await service.job<"payer">("p-1").result();
  const module: "paid" | "refused" = await (await ofModule.start("payer", { amount: 1 })).result();
  const one: "paid" | "refused" = await ofOne.job("p-1").result();
  const any: unknown = await (await untyped.start("anything", { what: "ever" })).result();
  for await (const event of audit.stream({ after: 3 })) take(event);
  await service.list("payer", { status: "completed" });
  console.log(text, count, result, paid, nothing, again, module, one, any);

  // @ts-expect-error
  await service.start("invoice-audits", { folder: "/in" });
  // @ts-expect-error
  await service.start("invoice-audit");
  // @ts-expect-error
  await service.start("invoice-audit", {});
  // @ts-expect-error
  await service.start("invoice-audit", { folder: 1 });
  // @ts-expect-error
  await service.start("invoice-audit", { folder: "/in", folders: "/in" });
  // @ts-expect-error
  await service.start("payer", { folder: "/in" });
  // @ts-expect-error
  await service.start("payer", { amount: 1 }, { name: "p-1" });
  // @ts-expect-error
  const wrong: number = await (await service.start("payer", { amount: 1 })).result();
  // @ts-expect-error
  await ofModule.start("nobody", {});
  // @ts-expect-error
  await ofOne.start("invoice-audit", { folder: "/in" });
  // @ts-expect-error
  await audit.token({ scopes: ["everything"] });
  console.log(wrong);
}

function take(event: JobEvent): void {
  if (event.type === "entry" && event.entry.type === "call") console.log(event.id, event.entry.call);
  // @ts-expect-error
  if (event.type === "end") console.log(event.entry);
}
`;

it.each([...shareOf(["typescript-5.4", "typescript-5.9"], 2), "typescript"])(
  "a page that gives wrong fields does not compile with %s",
  async (compiler) => {
    await using built = await buildPackage();
    const folder = await mkdtemp(join(tmpdir(), "typed-"));
    try {
      await mkdir(join(folder, "node_modules"));
      await symlink(built.folder, join(folder, "node_modules/agent-control-service"));
      for (const name of ["valibot", "zod"])
        await symlink(join(MODULES, name), join(folder, "node_modules", name));
      await writeFile(join(folder, "package.json"), '{ "type": "module" }');
      await copyFile(new URL("./_agents.ts", import.meta.url), join(folder, "service.ts"));
      await writeFile(join(folder, "page.ts"), PAGE);
      const lib = ["--lib", "es2022,dom,dom.asynciterable", "--target", "es2022"];
      const resolution = [
        "--module",
        "esnext",
        "--moduleResolution",
        "bundler",
        "--allowImportingTsExtensions",
      ];
      const options = [...lib, ...resolution, "--noEmit", "--strict", "--skipLibCheck"];
      const args = [join(MODULES, compiler, "bin/tsc"), ...options, "page.ts"];

      const checked = await promisify(execFile)(process.execPath, args, { cwd: folder }).catch(
        (error: { stdout: string }) => error,
      );

      expect(checked.stdout).toBe("");
    } finally {
      await rm(folder, { recursive: true });
    }
  },
);

it("a slug has the same text for the compiler as for the service", () => {
  const slugs = {
    "Invoice audit": "invoice-audit",
    "Failing / no-result": "failing-no-result",
    "  A1_b (2.0)! ": "a1-b-2-0",
    hello: "hello",
  } as const satisfies {
    [Name in "Invoice audit" | "Failing / no-result" | "  A1_b (2.0)! " | "hello"]: Slug<Name>;
  };

  for (const [name, slug] of Object.entries(slugs)) expect(toSlug(name)).toBe(slug);
  expectTypeOf<Slug<"Prüfer">>().toEqualTypeOf<string>();
  expectTypeOf<Slug<string>>().toEqualTypeOf<string>();
});
