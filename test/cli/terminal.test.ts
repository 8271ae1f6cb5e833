import { expect, it } from "vitest";
import { userName } from "../../src/cli/job/user-name.ts";
import { printable } from "../../src/cli/table.ts";

it("text of an agent cannot steer the terminal, and JSON stays JSON", () => {
  const hostile = "paid\u001b[2J\u009b31m\tin full\r\nok";

  expect(printable(hostile)).toBe("paid\\u001b[2J\\u009b31m\tin full\\u000d\nok");
  expect(JSON.parse(printable(JSON.stringify({ hostile })))).toEqual({ hostile });
});

it("a user whom the system does not know by name still starts jobs", () => {
  const unknown = () => {
    throw Object.assign(new Error("uv_os_get_passwd returned ENOENT"), { code: "ERR_SYSTEM_ERROR" });
  };

  expect(userName({}, unknown)).toBe("unknown");
  expect(userName({ USER: "ada" }, unknown)).toBe("ada");
  expect(userName({ USER: "ada" }, () => ({ username: "grace" }))).toBe("grace");
});
