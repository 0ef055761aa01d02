"""Maps: functions of one sequence each, whose values do not depend on who calls them when."""
