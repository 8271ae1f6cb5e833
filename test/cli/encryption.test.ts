import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { testServer } from "agent-control-service/testing";
import { expect, it, onTestFinished } from "vitest";
import { main } from "../../src/cli/main.ts";
import { bytesUnder, MARKERS, markersIn, runSecretive, secretive } from "../store/_encrypted.ts";
import { newKey } from "../store/_key.ts";

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "svc-encryption-"));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** `svc` in a folder, with keys in a variable. */
function commandLine(cwd: string) {
  return async (keys: string | undefined, ...argv: string[]) => {
    const lines: string[] = [];
    const keep = (line: string) => void lines.push(line);
    const env = { ...(keys !== undefined && { SERVICE_ENCRYPTION_KEYS: keys }) };
    const context = { argv, self: [], cwd, env, print: keep, note: keep, interactive: false, platforms: {} };
    const code = await main(argv, context);
    return { code, text: lines.join("\n") };
  };
}

it("the commands on data take the keys from the variable, and never print them", async () => {
  const cwd = folder();
  const [one, two] = [newKey(), newKey()];
  const dataDir = join(cwd, "data");
  {
    const encryption = { keys: [one] };
    await using server = await testServer({ agents: [secretive], store: undefined, dataDir, encryption });
    await runSecretive(server);
    expect(server.logs.join("\n")).not.toContain(one);
    const pages = ["/admin/server", "/admin/api/server"];
    for (const path of pages)
      expect(await (await server.request(path)).text()).not.toContain(one.slice(0, 20));
  }
  const svc = commandLine(cwd);
  const texts: string[] = [];
  const run = async (keys: string | undefined, ...argv: string[]) => {
    const { code, text } = await svc(keys, "store", ...argv);
    texts.push(text);
    return { code, text };
  };

  expect(await run(one, "verify")).toMatchObject({ code: 0, text: expect.stringContaining("no damage") });
  expect(await run(undefined, "verify")).toMatchObject({
    code: 1,
    text: expect.stringContaining("which is missing"),
  });
  expect(await run(two, "export", "out")).toMatchObject({
    code: 1,
    text: expect.stringContaining("which is missing"),
  });
  expect(await run("not a key", "verify")).toMatchObject({
    text: expect.stringContaining("openssl rand -base64 32"),
  });
  expect(await run(undefined, "backup", "copy")).toMatchObject({
    code: 0,
    text: expect.stringContaining("1 encrypted file was copied without a check"),
  });
  expect((await run(one, "backup", "checked")).text).not.toContain("without a check");
  expect(markersIn(bytesUnder(join(cwd, "copy")))).toEqual([]);
  expect(await run(one, "restore", "copy", "--dry-run")).toMatchObject({ code: 0 });
  expect(await run(one, "export", "exported")).toMatchObject({ code: 0 });
  expect(markersIn(bytesUnder(join(cwd, "exported")))).toEqual(MARKERS);
  expect(await run(two, "import", "exported", "--data-dir", "imported")).toMatchObject({ code: 0 });
  expect(await run(two, "verify", "--data-dir", "imported")).toMatchObject({ code: 0 });
  expect(await run(one, "verify", "--data-dir", "imported")).toMatchObject({ code: 1 });
  expect(await run(one, "prune", "--dry-run", "--completed", "1s")).toMatchObject({ code: 0 });
  expect(await run(`${two},${one}`, "move", "--from", "data", "--to", "moved")).toMatchObject({ code: 0 });
  expect(await run(two, "verify", "--data-dir", "moved")).toMatchObject({ code: 0 });
  expect(await run(undefined, "repair", "--data-dir", "moved")).toMatchObject({ code: 0 });
  expect(await run(two, "verify", "--data-dir", "moved")).toMatchObject({ code: 0 });
  for (const secret of [one, two]) expect(texts.join("\n")).not.toContain(secret.slice(0, 20));
  expect(markersIn(texts)).toEqual([]);
});

it("a part of a file that was cut, changed or swapped is found by verify", async () => {
  const cwd = folder();
  const key = newKey();
  const dataDir = join(cwd, "data");
  {
    const encryption = { keys: [key] };
    await using server = await testServer({ agents: [secretive], store: undefined, dataDir, encryption });
    await runSecretive(server);
  }
  const { readdirSync, readFileSync } = await import("node:fs");
  const [path] = readdirSync(join(dataDir, "svc-files"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
  const sealed = readFileSync(path!);
  const svc = commandLine(cwd);
  const changed = Buffer.from(sealed);
  changed[sealed.length - 20]! ^= 1;
  for (const bytes of [
    changed,
    sealed.subarray(0, -1),
    sealed.subarray(0, 60),
    Buffer.from("marker of the file"),
  ]) {
    writeFileSync(path!, bytes);
    const { code, text } = await svc(key, "store", "verify");
    const isPlain = bytes.equals(Buffer.from("marker of the file"));
    expect([code, text]).toEqual([
      isPlain ? 0 : 1,
      isPlain ? text : expect.stringContaining("the file with the SHA-256"),
    ]);
  }
  writeFileSync(path!, sealed);
  expect((await svc(key, "store", "verify")).code).toBe(0);
});
