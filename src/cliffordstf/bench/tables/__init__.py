"""Result files as tables and figures: the forms, and the tables that compare several models or studies."""
