//! Commands of the command line: how their arguments run them, and how a group of them is declared.

use std::process::ExitCode;

/// The parsed arguments of a command, or of one command of a group.
pub(crate) trait Run {
    /// Runs the command, and returns the exit code of the process.
    fn run(self) -> ExitCode;
}

impl<C: Run> Run for Box<C> {
    fn run(self) -> ExitCode {
        (*self).run()
    }
}

/// Declares a group of commands: an enum with a variant for each command or nested group. The parser takes the name of a
/// command from the variant, and its help from the comment on its arguments. The enum implements [`Run`].
macro_rules! commands {
    (
        $(#[$($about:tt)*])*
        $group:ident {
            $( $(#[$($attribute:tt)*])* $command:ident($($arguments:tt)+), )+
        }
    ) => {
        $(#[$($about)*])*
        #[derive(Debug, clap::Subcommand)]
        pub(crate) enum $group {
            $( $(#[$($attribute)*])* $command($($arguments)+), )+
        }

        impl $crate::command::Run for $group {
            fn run(self) -> std::process::ExitCode {
                match self {
                    $( Self::$command(arguments) => $crate::command::Run::run(arguments), )+
                }
            }
        }
    };
}
pub(crate) use commands;
