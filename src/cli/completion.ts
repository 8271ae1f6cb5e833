import { defineCommand } from "./command.ts";
import { UsageError } from "./errors.ts";
import { COMPLETE } from "./program.ts";

/** `svc completion`: prints a script that completes `svc` command lines. */
export const completion = defineCommand({
  usage: "completion <shell>",
  summary: "Print the completion script for bash, zsh or fish",
  examples: [
    "svc completion bash >> ~/.bashrc",
    "svc completion zsh >> ~/.zshrc",
    "svc completion fish > ~/.config/fish/completions/svc.fish",
  ],
  async run({ args, context }) {
    const script = SCRIPTS[args[0]!];
    if (!script) throw new UsageError(`Unknown shell "${args[0]}"`, "Shells: bash, zsh, fish.");
    context.print(script);
    return 0;
  },
});

const SCRIPTS: Readonly<Record<string, string>> = {
  bash: `_svc() {
  mapfile -t COMPREPLY < <(svc ${COMPLETE} "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _svc svc`,
  zsh: `_svc() {
  local -a candidates
  candidates=("\${(@f)$(svc ${COMPLETE} "\${words[@]:1:$((CURRENT-1))}" 2>/dev/null)}")
  compadd -a candidates
}
compdef _svc svc`,
  fish: `complete -c svc -a '(svc ${COMPLETE} (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'`,
};
